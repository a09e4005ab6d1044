package h2

import "github.com/capgate/capgate/gateway/relay/hpack"

// Headers holds the fields of a header block that are kept. Its strings are valid only during the event.
type Headers struct {
	Path        string
	Status      string // HTTP
	GRPCStatus  string
	GRPCMessage string
}

// Indexes of the kept fields.
const (
	path uint32 = iota + 1
	status
	grpcStatus
	grpcMessage
)

func tag(name, _ string) uint32 {
	switch name {
	case ":path":
		return path
	case ":status":
		return status
	case "grpc-status":
		return grpcStatus
	case "grpc-message":
		return grpcMessage
	}
	return 0
}

// decoder decodes the header blocks of any encoder.
type decoder struct {
	*hpack.Decoder
	list hpack.List
}

func newDecoder() *decoder {
	return &decoder{Decoder: hpack.NewDecoder(hpack.NewInterner(tag), tableLimit)}
}

const maxList = 1 << 20 // bytes of fields per block

// decode decodes one complete block.
func (d *decoder) decode(b []byte) (h Headers, err error) {
	d.list.Reset()
	err = d.Decode(b, &d.list, maxList)
	for i := range d.list.Fields {
		switch f := &d.list.Fields[i]; f.Tag {
		case path:
			h.Path = f.Value
		case status:
			h.Status = f.Value
		case grpcStatus:
			h.GRPCStatus = f.Value
		case grpcMessage:
			h.GRPCMessage = f.Value
		}
	}
	return h, err
}
