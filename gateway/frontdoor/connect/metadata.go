package connect

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/metadata"

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

// binary is the suffix of metadata names with binary values.
const binary = "-bin"

// Timeout implements web.Door. connect-go rejects a request with a malformed timeout.
func (*Handler) Timeout(r *http.Request) (timeout time.Duration, present bool) {
	switch protocolOf(r) {
	case connectUnary, connectStream:
		ms, err := strconv.ParseUint(r.Header.Get("Connect-Timeout-Ms"), 10, 31)
		return time.Duration(ms) * time.Millisecond, err == nil
	case grpcWeb, grpcWebText:
		return relay.ParseTimeout(r.Header.Get("Grpc-Timeout"))
	case none:
	}
	return 0, false
}

// outgoing adds a request's headers to the metadata of ctx, except headers of HTTP, of the protocol, and of browsers.
func outgoing(ctx context.Context, from http.Header) (context.Context, error) {
	md := metadata.MD{}
	if err := eachMetadata(from, func(name, value string) { md.Append(name, value) }); err != nil {
		return nil, err
	}
	return metadata.NewOutgoingContext(ctx, md), nil
}

// eachMetadata visits the metadata of a request's headers, with the bytes of binary values. Cookies are excluded:
// browsers send them automatically, and tools must not see them.
func eachMetadata(from http.Header, visit func(name, value string)) error {
	for name, values := range from {
		name = strings.ToLower(name)
		if header.Is(name, header.NoMetadata) {
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
	if !strings.HasSuffix(name, binary) {
		if !header.IsASCII(value) {
			return refused("METADATA_INVALID", call.InvalidArgument, "the header %s may only contain printable ASCII",
				name)
		}
		visit(name, value)
		return nil
	}
	for v := range strings.SplitSeq(value, ",") { // several values in one header are common
		raw, err := connect.DecodeBinaryHeader(strings.TrimSpace(v))
		if err != nil {
			return refused("METADATA_INVALID", call.InvalidArgument, "the header %s must be base64", name)
		}
		visit(name, string(raw))
	}
	return nil
}

// addFields writes the header fields or the trailers of a response like addTo.
func addFields(to http.Header, prefix string, fields []relay.Field) {
	for _, f := range fields {
		if header.Is(f.Name, header.NoHeader) || localgrpc.Reserved(f.Name) {
			continue
		}
		if !strings.HasSuffix(f.Name, binary) {
			to.Add(prefix+f.Name, f.Value)
			continue
		}
		for v := range strings.SplitSeq(f.Value, ",") {
			if raw, err := connect.DecodeBinaryHeader(strings.TrimSpace(v)); err == nil {
				to.Add(prefix+f.Name, connect.EncodeBinaryHeader(raw))
			}
		}
	}
}

// addTo writes metadata as headers, except names with a meaning for browsers.
func addTo(to http.Header, md metadata.MD) {
	for name, values := range md {
		if name = strings.ToLower(name); header.Is(name, header.NoHeader) {
			continue
		}
		for _, v := range values {
			if strings.HasSuffix(name, binary) {
				v = connect.EncodeBinaryHeader([]byte(v))
			}
			to.Add(name, v)
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
