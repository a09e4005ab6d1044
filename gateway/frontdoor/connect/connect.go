package connect

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/stream"
	"github.com/capgate/capgate/gateway/frontdoor/unary"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/response"
)

// Config configures the front door. The zero value is valid.
type Config struct {
	MaxMessage int           // maximum size of a message in bytes; default 16 MiB
	Stall      time.Duration // maximum time without progress of a client's body or of its reads; default 1 min
	Unary      unary.Make    // makes the calls that bypass connect-go; nil means none do
}

func (c Config) withDefaults() Config {
	c.MaxMessage, c.Stall = cmp.Or(c.MaxMessage, 16<<20), cmp.Or(c.Stall, time.Minute)
	return c
}

// compressFrom is the minimum length in bytes of compressed messages, for clients that accept compression.
const compressFrom = 1 << 10

// Handler serves gRPC-Web and Connect. It is safe for concurrent use and need not be closed.
type Handler struct {
	cfg    Config
	conn   grpc.ClientConnInterface
	errors *connect.ErrorWriter
	unary  *connect.Handler // Connect without envelopes
	stream *connect.Handler // Connect with envelopes, and gRPC-Web, where unary calls have the same form
}

// New returns a Handler that makes its calls over conn.
func New(conn grpc.ClientConnInterface, cfg Config) *Handler {
	h := &Handler{cfg: cfg.withDefaults(), conn: conn}
	options := connect.WithHandlerOptions(
		connect.WithCodec(codec("proto")), connect.WithCodec(codec("json")),
		connect.WithCodec(codec("json; charset=utf-8")), connect.WithReadMaxBytes(h.cfg.MaxMessage),
		connect.WithCompressMinBytes(compressFrom))
	h.errors = connect.NewErrorWriter(options)
	h.unary = connect.NewUnaryHandler("", h.passUnary, options)
	h.stream = connect.NewBidiStreamHandler("", h.passStream, options)
	return h
}

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p, t := protocolOf(r), targetOf(r)
	if p = t.formOf(p); p == none {
		problem.Write(w, r, unsupportedType)
		return
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	out := bodybudget.WriteTimeout(w, h.cfg.Stall)
	defer out.End()
	w = out
	r = r.WithContext(context.WithValue(r.Context(), targetKey{}, t))
	in := bodybudget.StallTimeout(w, r.Body, h.cfg.Stall)
	t.body = &heldBody{Reader: bodybudget.FromContext(r.Context()).Reader(in, expected(r, int64(h.cfg.MaxMessage)))}
	r.Body = t.body
	if p == grpcWebText {
		r.Header = r.Header.Clone()
		w, r.Body = asText(w, r)
	}
	if err := checkHeader(r, p); err != nil {
		h.refuse(w, r, err)
		return
	}
	if p == connectUnary {
		if !h.direct(w, r, t) {
			h.serveUnary(w, r, t)
		}
		return
	}
	// For HTTP/1.1, connect-go requires full-duplex I/O, or does not stream at all.
	r.ProtoMajor, r.ProtoMinor = 2, 0
	stream.Unbuffered(w.Header())
	h.stream.ServeHTTP(w, r)
}

// serveUnary serves a request without envelopes.
func (h *Handler) serveUnary(w http.ResponseWriter, r *http.Request, t *target) {
	out := &response.Replaced{ResponseWriter: w, Withhold: func(status int) bool {
		return !t.begun && status >= http.StatusBadRequest
	}}
	h.unary.ServeHTTP(out, r)
	for _, code := range []codes.Code{codes.ResourceExhausted, codes.DeadlineExceeded, codes.InvalidArgument} {
		if out.Status == status.HTTP(code) || out.Status != 0 && code == codes.InvalidArgument {
			h.refuse(w, r, t.unread(connect.Code(code)))
			return
		}
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
	case isOf(typ, typeWebText):
		return grpcWebText
	case isOf(typ, typeWeb):
		return grpcWeb
	case typ == typeStream+"proto", typ == typeStream+"json":
		return connectStream
	case typ == "application/proto":
		return connectUnary
	case typ == "application/json" && (r.Header.Get("Connect-Protocol-Version") != "" || looksLikeMethod(r.URL.Path)):
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
	return typ == protocol || typ == protocol+"+proto" || typ == protocol+"+json"
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
func mediaType(header http.Header) string {
	typ, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(typ))
}
