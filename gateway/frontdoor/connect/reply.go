package connect

import (
	"encoding/binary"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/capgate/capgate/gateway/frontdoor/stream"
	"github.com/capgate/capgate/gateway/relay"
)

// reply writes a response with envelopes.
type reply struct {
	w     http.ResponseWriter
	web   bool // gRPC-Web
	pack  bool // compress messages
	begun bool // the header may have been sent
	out   []byte
}

// newReply sets the header of a response with envelopes.
func newReply(w http.ResponseWriter, t *target) *reply {
	a := &reply{w: w, web: t.isWeb(), pack: t.packs}
	head := w.Header()
	stream.Unbuffered(head)
	head["Content-Type"] = []string{t.typ}
	accept, coding := "Connect-Accept-Encoding", "Connect-Content-Encoding"
	if a.web {
		accept, coding = "Grpc-Accept-Encoding", "Grpc-Encoding"
	}
	head[accept] = gzipOnly
	if a.pack {
		head[coding] = gzipOnly
	}
	return a
}

// begin sets the header fields of a call's response.
func (a *reply) begin(fields []relay.Field) {
	a.begun = true
	addFields(a.w.Header(), "", fields)
}

// longMessage is the size in bytes from which a message is not copied into the memory of the reply.
const longMessage = 32 << 10

// message adds a message. flush sends it.
func (a *reply) message(data []byte) error { return a.envelope(0, data) }

func (a *reply) envelope(flags byte, data []byte) error {
	if a.pack && len(data) >= compressFrom {
		flags, data = flags|flagCompressed, compressed(data)
	}
	a.out = binary.BigEndian.AppendUint32(append(a.out, flags), uint32(len(data)))
	if len(data) < longMessage {
		a.out = append(a.out, data...)
		return nil
	}
	if err := a.write(); err != nil {
		return err
	}
	_, err := a.w.Write(data)
	return err
}

// full reports whether the messages must be sent before another one is added.
func (a *reply) full() bool { return len(a.out) >= longMessage }

func (a *reply) write() error {
	_, err := a.w.Write(a.out)
	clear(a.out)
	a.out = a.out[:0]
	return err
}

// flush sends the header and the messages so far.
func (a *reply) flush() error {
	if len(a.out) > 0 {
		if err := a.write(); err != nil {
			return err
		}
	}
	return http.NewResponseController(a.w).Flush()
}

// end ends the response. failed is the error of the call; nil means none.
func (a *reply) end(failed *failure, trailer []relay.Field) error {
	if !a.web {
		if err := a.envelope(flagConnectEnd, endOfStream(failed, trailer)); err != nil {
			return err
		}
		return a.flush()
	}
	fields := webTrailers(failed, trailer)
	if !a.begun { // a response without messages has its trailers in the header
		for _, f := range fields {
			a.w.Header().Add(f.Name, f.Value)
		}
		return a.flush()
	}
	if err := a.envelope(flagWebTrailers, encoded(fields)); err != nil {
		return err
	}
	return a.flush()
}

// endOfStream returns the last message of a stream of Connect.
func endOfStream(failed *failure, trailer []relay.Field) []byte {
	var end struct {
		Error    *wireError  `json:"error,omitempty"`
		Metadata http.Header `json:"metadata,omitempty"`
	}
	end.Metadata = http.Header{}
	addFields(end.Metadata, "", trailer)
	if failed != nil {
		failed.addMeta(end.Metadata)
		end.Error = failed.wire()
	}
	text, err := json.Marshal(end)
	if err != nil { // of details
		end.Error.Details = nil
		text, _ = json.Marshal(end)
	}
	return text
}

// webTrailers returns the trailers of a response of gRPC-Web, sorted by name.
func webTrailers(failed *failure, trailer []relay.Field) []relay.Field {
	fields := make([]relay.Field, 0, len(trailer)+3)
	if failed == nil {
		fields = append(fields, relay.Field{Name: "grpc-status", Value: "0"})
	} else {
		fields = failed.fields(fields)
	}
	for _, f := range trailer {
		eachValue(f, func(value string) { fields = append(fields, relay.Field{Name: f.Name, Value: value}) })
	}
	slices.SortStableFunc(fields, func(a, b relay.Field) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

var oneLine = strings.NewReplacer("\r", " ", "\n", " ") //nolint:gochecknoglobals // a constant

// encoded returns trailers in the form of HTTP/1.1.
func encoded(fields []relay.Field) []byte {
	size := 0
	for _, f := range fields {
		size += len(f.Name) + len(f.Value) + 4
	}
	text := make([]byte, 0, size)
	for _, f := range fields {
		text = append(append(text, f.Name...), ": "...)
		text = append(append(text, strings.TrimSpace(oneLine.Replace(f.Value))...), "\r\n"...)
	}
	return text
}
