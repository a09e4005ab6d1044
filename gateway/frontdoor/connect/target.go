package connect

import (
	"mime"
	"net/http"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/frontdoor/request"
)

// target is the method that a request calls, and the form of its messages.
type target struct {
	path      string                        // in the form of gRPC
	authority string                        // may name the capability
	schema    protoreflect.MethodDescriptor // nil means unknown
	in, out   *flat                         // of the schema; nil means that its messages are not flat
	protocol  protocol
	typ       string          // content type of the response, except that it is not base64; empty means unsupported
	json      bool            // the messages are JSON
	gzip      bool            // the request may be compressed
	packs     bool            // the response may be compressed
	body      *heldBody       // body of the request
	results   request.Growing // charge for messages of the response that are converted
}

func targetOf(r *http.Request) *target {
	t := &target{path: r.URL.EscapedPath(), authority: r.Host}
	typ := mediaType(r.Header)
	t.json = strings.HasSuffix(typ, "/json") || strings.HasSuffix(typ, "+json")
	service, method, _ := strings.Cut(strings.TrimPrefix(t.path, "/"), "/")
	t.schema = schemaOf(service, method)
	if t.protocol = t.formOf(protocolOf(r)); t.protocol == none {
		return t
	}
	t.typ = t.responseType(header.First(r.Header, "Content-Type"), typ)
	coding, accept := t.codingHeaders()
	t.gzip = header.First(r.Header, coding) == "gzip"
	t.packs = t.gzip || acceptsGzip(header.First(r.Header, accept))
	return t
}

// codingHeaders returns the names of the headers with the compression of the request, and the accepted ones.
func (t *target) codingHeaders() (coding, accept string) {
	switch t.protocol {
	case connectUnary:
		return "Content-Encoding", "Accept-Encoding"
	case connectStream:
		return "Connect-Content-Encoding", "Connect-Accept-Encoding"
	case grpcWeb, grpcWebText, none:
	}
	return "Grpc-Encoding", "Grpc-Accept-Encoding"
}

// responseType returns the content type of the response to a request with a content type, whose media type is typ.
// Parameters other than the charset of JSON are not supported.
func (t *target) responseType(full, typ string) string {
	if t.protocol == grpcWebText {
		return typeWeb + strings.TrimPrefix(typ, typeWebText)
	}
	if full == typ {
		return typ
	}
	typ, params, err := mime.ParseMediaType(full)
	switch charset, ok := params["charset"]; {
	case err != nil:
		return ""
	case len(params) == 0:
		return typ
	case !ok || len(params) > 1 || !t.json || !strings.EqualFold(charset, "utf-8"):
		return ""
	}
	return mime.FormatMediaType(typ, map[string]string{"charset": "utf-8"})
}

// isWeb reports whether the protocol is gRPC-Web.
func (t *target) isWeb() bool { return t.protocol == grpcWeb || t.protocol == grpcWebText }

// isUnary reports whether the method is known to have no streams.
func (t *target) isUnary() bool {
	return t.schema != nil && !t.schema.IsStreamingClient() && !t.schema.IsStreamingServer()
}

// looksLikeMethod reports whether a path is that of a gRPC method, with a service in a package.
func looksLikeMethod(path string) bool {
	service, method, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return ok && strings.Contains(service, ".") && method != "" && !strings.Contains(method, "/")
}
