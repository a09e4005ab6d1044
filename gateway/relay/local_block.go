package relay

import (
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// Headers and trailers at a local end: a block remains a list of fields, and is not encoded.

// endLocal passes a block to a local end.
func (w *blockWriter) endLocal(h *half, end bool) {
	e := w.local
	h.sentEnd = h.sentEnd || end
	e.owner.block(h, w.list, end)
	e.sh.freeList(w.list)
}

// textLocal adds a field that is not interned.
func (w *blockWriter) textLocal(name, value string) {
	w.list.Append(name, value, classify(name, value))
}

// statusOf returns the status of trailers, as a copy.
func statusOf(list *hpack.List, code uint32) Status {
	st := Status{Code: code}
	for i := range list.Fields {
		f := &list.Fields[i]
		switch f.Tag & nameMask {
		case nameGRPCMessage:
			st.Message = percentDecode(f.Value)
		case nameGRPCDetails:
			// Padding is allowed (gRPC over HTTP/2, "Requests"). Invalid details are dropped, as in grpc-go.
			st.Details, _ = base64.RawStdEncoding.DecodeString(strings.TrimRight(f.Value, "="))
		case nameOther:
			switch f.Name {
			case "www-authenticate":
				st.Challenge = strings.Clone(f.Value)
			case pushback:
				st.NoRetry = f.Value == never
			}
		}
	}
	return st
}

// percentDecode reverses percentEncode. Invalid escapes are unchanged.
func percentDecode(msg string) string {
	if !strings.Contains(msg, "%") {
		return strings.Clone(msg)
	}
	out := make([]byte, 0, len(msg))
	for i := 0; i < len(msg); i++ {
		if msg[i] == '%' && i+2 < len(msg) {
			if b, err := strconv.ParseUint(msg[i+1:i+3], 16, 8); err == nil {
				out = append(out, byte(b))
				i += 2
				continue
			}
		}
		out = append(out, msg[i])
	}
	return string(out)
}

func putUint32(b []byte, v uint32) {
	b[0], b[1], b[2], b[3] = byte(v>>24), byte(v>>16), byte(v>>8), byte(v)
}
