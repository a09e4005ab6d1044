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
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/frontdoor/stream"
	"github.com/capgate/capgate/internal/call"
)

// Config is how the front door is set up. The zero value works.
type Config struct {
	MaxMessage int           // bytes of the largest message; default 16 MiB
	Stall      time.Duration // how long a client may send or read nothing while it should; default 1 min
}

func (c Config) withDefaults() Config {
	c.MaxMessage, c.Stall = cmp.Or(c.MaxMessage, 16<<20), cmp.Or(c.Stall, time.Minute)
	return c
}

// compressFrom is the minimum length in bytes of compressed messages, for clients that accept compression.
const compressFrom = 1 << 10

// Handler serves gRPC-Web and Connect. It is safe for concurrent use and has nothing to close.
type Handler struct {
	cfg    Config
	conn   grpc.ClientConnInterface
	unary  *connect.Handler // of Connect: without an envelope
	stream *connect.Handler // of Connect: with envelopes; and gRPC-Web, where unary looks the same
}

// New returns the front door of the gateway behind conn.
func New(conn grpc.ClientConnInterface, cfg Config) *Handler {
	h := &Handler{cfg: cfg.withDefaults(), conn: conn}
	options := connect.WithHandlerOptions(
		connect.WithCodec(codec("proto")), connect.WithCodec(codec("json")), connect.WithCodec(codec("json; charset=utf-8")),
		connect.WithReadMaxBytes(h.cfg.MaxMessage), connect.WithCompressMinBytes(compressFrom))
	h.unary = connect.NewUnaryHandler("", h.passUnary, options)
	h.stream = connect.NewBidiStreamHandler("", h.passStream, options)
	return h
}

// ServeHTTP answers one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := protocolOf(r)
	if p == none {
		problem.Write(w, r, unsupportedType)
		return
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	t := targetOf(r)
	out := bodybudget.WriteTimeout(w, h.cfg.Stall)
	defer out.End()
	w = out
	r = r.WithContext(context.WithValue(r.Context(), targetKey{}, t))
	in := bodybudget.StallTimeout(w, r.Body, h.cfg.Stall)
	r.Body = &heldBody{bodybudget.FromContext(r.Context()).Reader(in, expected(r, int64(h.cfg.MaxMessage)))}
	if p == grpcWebText {
		r.Header = r.Header.Clone()
		w, r.Body = asText(w, r)
	}
	if p != grpcWeb && p != grpcWebText && t.schema != nil { // Connect has a form for each, and rejects the other
		p = connectUnary
		if t.schema.IsStreamingClient() || t.schema.IsStreamingServer() {
			p = connectStream
		}
	}
	if p == connectUnary {
		h.unary.ServeHTTP(w, r)
		if r.Context().Err() == nil { // connect-go has answered a body that it cannot decode, unless there was a call
			request.Rejected(r.Context(), codes.InvalidArgument, "REQUEST_MALFORMED")
		}
		return
	}
	// Of HTTP/1.1 connect-go expects that it reads and writes at the same time, or not at all.
	r.ProtoMajor, r.ProtoMinor = 2, 0
	stream.Unbuffered(w.Header())
	h.stream.ServeHTTP(w, r)
}

// Match implements web.Door. A request for a method of gRPC that is of neither protocol is rejected here.
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

// protocolOf returns the protocol of a request, if it is one of these. A JSON request may also be for the JSON
// API, whose paths do not begin like a service.
func protocolOf(r *http.Request) protocol {
	if r.Method != http.MethodPost {
		return none
	}
	typ := mediaType(r.Header)
	switch {
	case strings.HasPrefix(typ, typeWebText):
		return grpcWebText
	case strings.HasPrefix(typ, typeWeb):
		return grpcWeb
	case strings.HasPrefix(typ, "application/connect+"):
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
)

// mediaType is the type of the body, without parameters.
func mediaType(header http.Header) string {
	typ, _, _ := strings.Cut(header.Get("Content-Type"), ";")
	return strings.ToLower(strings.TrimSpace(typ))
}
