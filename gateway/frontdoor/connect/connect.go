package connect

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/internal/call"
)

// Config configures the front door. The zero value is valid.
type Config struct {
	MaxMessage int           // maximum size of a message in bytes; default 16 MiB
	Stall      time.Duration // maximum time without progress of a client's body or of its reads; default 1 min
}

func (c Config) withDefaults() Config {
	c.MaxMessage, c.Stall = cmp.Or(c.MaxMessage, 16<<20), cmp.Or(c.Stall, time.Minute)
	return c
}

// Handler serves gRPC-Web and Connect. It is safe for concurrent use and need not be closed.
type Handler struct {
	cfg   Config
	calls Calls
	flats map[protoreflect.FullName]*flat // messages of the protocol of capabilities
}

// New returns a Handler that makes its calls by calls.
func New(calls Calls, cfg Config) *Handler {
	return &Handler{cfg.withDefaults(), calls, flatsOf("selu.capability", "selu.capability.v1")}
}

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := targetOf(r)
	if t.json && t.schema != nil {
		t.in, t.out = h.flats[t.schema.Input().FullName()], h.flats[t.schema.Output().FullName()]
	}
	if t.protocol == none || t.typ == "" {
		t.refuseType(w, r)
		return
	}
	w.Header()["X-Content-Type-Options"] = noSniff
	out := bodybudget.WriteTimeout(w, h.cfg.Stall)
	defer out.End()
	w = out
	if timeout, ok := h.Timeout(r); ok {
		ctx, cancel := context.WithTimeout(r.Context(), timeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	in := bodybudget.StallTimeoutOf(r.Context(), w, r.Body, h.cfg.Stall)
	held := bodybudget.FromContext(r.Context())
	t.body = &heldBody{Reader: held.Reader(in, expected(r, int64(h.cfg.MaxMessage))), held: held}
	if t.protocol == grpcWebText {
		w, t.body.Reader = newTextWriter(w), &textBody{Reader: t.body.Reader}
	}
	if err := checkHeader(r, t.protocol); err != nil {
		t.refuse(w, r, err)
		return
	}
	switch {
	case t.protocol == connectUnary:
		h.serveUnary(w, r, t)
	case t.isUnary(): // formOf excludes connectStream
		h.serveWebUnary(w, r, t)
	default:
		h.serveStream(w, r, t)
	}
}

// Match implements web.Door. A request for a gRPC method in neither protocol is rejected here.
func (*Handler) Match(r *http.Request) bool {
	return protocolOf(r) != none || r.Method == http.MethodPost && looksLikeMethod(r.URL.Path)
}

// Protocol implements web.Door. A request of neither protocol counts as Connect, which is plain HTTP.
func (*Handler) Protocol(r *http.Request) call.Protocol {
	switch protocolOf(r) {
	case grpcWeb, grpcWebText:
		return call.GRPCWeb
	case connectUnary, connectStream, none:
	}
	return call.Connect
}

// protocol is the protocol of a request.
type protocol uint8

const (
	none protocol = iota
	grpcWeb
	grpcWebText
	connectUnary
	connectStream
)

// protocolOf returns the protocol of a request, or none. A JSON request may also be for the JSON API, whose paths do
// not start like a service.
func protocolOf(r *http.Request) protocol {
	if r.Method != http.MethodPost {
		return none
	}
	typ := mediaType(r.Header)
	switch {
	case typ == "application/json": // most requests
		if header.First(r.Header, "Connect-Protocol-Version") != "" || looksLikeMethod(r.URL.Path) {
			return connectUnary
		}
	case isOf(typ, typeWebText):
		return grpcWebText
	case isOf(typ, typeWeb):
		return grpcWeb
	case typ == typeStream+"proto", typ == typeStream+"json":
		return connectStream
	case typ == "application/proto":
		return connectUnary
	}
	return none
}

const (
	typeWeb     = "application/grpc-web"
	typeWebText = "application/grpc-web-text"
	typeStream  = "application/connect+"
)

// isOf reports whether a content type is that of a protocol, with or without an encoding.
func isOf(typ, protocol string) bool {
	encoding, ok := strings.CutPrefix(typ, protocol)
	return ok && (encoding == "" || encoding == "+proto" || encoding == "+json")
}

// formOf returns the protocol for a request of p; none means that its method does not support the request. Connect has
// one form for methods with streams, and another one for unary methods.
func (t *target) formOf(p protocol) protocol {
	if t.schema == nil || p != connectUnary && p != connectStream ||
		(p == connectStream) == (t.schema.IsStreamingClient() || t.schema.IsStreamingServer()) {
		return p
	}
	return none
}

// mediaType returns the type of the body, without parameters.
func mediaType(h http.Header) string {
	typ := header.First(h, "Content-Type")
	if typ == "application/json" {
		return typ
	}
	typ, _, _ = strings.Cut(typ, ";")
	return strings.ToLower(strings.TrimSpace(typ))
}
