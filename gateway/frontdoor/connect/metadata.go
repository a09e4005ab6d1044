package connect

import (
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// Headers implements web.Door. All headers with metadata are forwarded to the calls.
func (*Handler) Headers() header.Door {
	return header.Door{
		Request: []string{"Content-Type", "Connect-Protocol-Version", "Connect-Timeout-Ms", "Connect-Accept-Encoding",
			"Connect-Content-Encoding",
			"Grpc-Timeout", "Grpc-Accept-Encoding", "Grpc-Encoding", "X-Grpc-Web", "X-User-Agent"},
		Response: []string{"Grpc-Status", "Grpc-Message", "Grpc-Status-Details-Bin", "Grpc-Encoding",
			"Grpc-Accept-Encoding", "Connect-Content-Encoding", "Connect-Accept-Encoding"}}
}

// binarySuffix is the suffix of metadata names with binary values.
const binarySuffix = "-bin"

// Timeout implements web.Door. checkHeader rejects a malformed timeout.
func (*Handler) Timeout(r *http.Request) (timeout time.Duration, present bool) {
	switch protocolOf(r) {
	case connectUnary, connectStream:
		return milliseconds(header.First(r.Header, "Connect-Timeout-Ms"))
	case grpcWeb, grpcWebText:
		return relay.ParseTimeout(header.First(r.Header, "Grpc-Timeout"))
	case none:
	}
	return 0, false
}

// eachMetadata visits the metadata of a request's headers: all but headers of HTTP, of the protocol, and of browsers.
// Binary values are base64 without padding. Cookies are excluded: browsers send them automatically, and tools must not
// see them.
func eachMetadata(from http.Header, visit func(name, value string)) error {
	for name, values := range from {
		if header.Is(name, header.NoMetadata) { // most headers, whose names need not be converted
			continue
		}
		name = header.MetadataName(name)
		if header.Is(name, header.NoMetadata) || localgrpc.Reserved(name) {
			continue
		}
		for _, v := range values {
			if !isName(name) {
				return refused("METADATA_INVALID", call.InvalidArgument,
					"a header's name may only contain letters, digits, -, _ and .")
			}
			if err := visitValues(name, v, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

func visitValues(name, value string, visit func(name, value string)) error {
	if !strings.HasSuffix(name, binarySuffix) {
		if !header.IsASCII(value) {
			return refused("METADATA_INVALID", call.InvalidArgument, "the header %s may only contain printable ASCII",
				name)
		}
		visit(name, value)
		return nil
	}
	for v := range strings.SplitSeq(value, ",") { // several values in one header are common
		raw, ok := decodeBinary(v)
		if !ok {
			return refused("METADATA_INVALID", call.InvalidArgument, "the header %s must be base64", name)
		}
		visit(name, base64.RawStdEncoding.EncodeToString(raw))
	}
	return nil
}

// decodeBinary decodes a binary value, with or without padding.
func decodeBinary(v string) ([]byte, bool) {
	v = strings.TrimSpace(v)
	decoder := base64.RawStdEncoding
	if len(v)%4 == 0 { // it is padded, or needs no padding
		decoder = base64.StdEncoding
	}
	raw, err := decoder.DecodeString(v)
	return raw, err == nil
}

// eachValue visits the values of a field of a response that clients receive: not of names that have a meaning for
// browsers, or for the protocol.
func eachValue(f relay.Field, visit func(value string)) {
	if header.Is(f.Name, header.NoHeader) || localgrpc.Reserved(f.Name) {
		return
	}
	if !strings.HasSuffix(f.Name, binarySuffix) {
		visit(f.Value)
		return
	}
	for v := range strings.SplitSeq(f.Value, ",") {
		if raw, ok := decodeBinary(v); ok {
			visit(base64.RawStdEncoding.EncodeToString(raw))
		}
	}
}

// addFields writes the header fields or the trailers of a response.
func addFields(to http.Header, prefix string, fields []relay.Field) {
	for _, f := range fields {
		eachValue(f, func(value string) { to.Add(prefix+f.Name, value) })
	}
}

// addFields adds fields of a response to the headers of its error. Those of clients' requests have another meaning.
func (f *failure) addFields(fields []relay.Field) {
	for _, field := range fields {
		if field.Name != "host" && field.Name != "user-agent" {
			eachValue(field, func(value string) { f.meta.Add(field.Name, value) })
		}
	}
}

// isName reports whether a name is valid in metadata (gRPC over HTTP/2, "Header-Name").
func isName(name string) bool {
	for i := range len(name) {
		if b := name[i]; (b < 'a' || b > 'z') && (b < '0' || b > '9') && b != '-' && b != '_' && b != '.' {
			return false
		}
	}
	return name != ""
}
