package rest

import (
	"bytes"
	"context"
	"net/http"
	"sync/atomic"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/frontdoor/invocation"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/call"
)

// Extension adds routes to the JSON API.
type Extension func(*Routes) error

// Routes registers the routes of an Extension. They have the common handling of all routes: limits of bodies, metadata
// from headers, request ids, ETags.
type Routes struct {
	Mux  *runtime.ServeMux
	Conn grpc.ClientConnInterface // to the gateway itself
	h    *Handler
}

// Needed declares path parameters that must not be empty. Otherwise the path is unknown.
func (r *Routes) Needed(params ...string) { r.h.needed = append(r.h.needed, params...) }

// Stream adds a path whose POST streams its response. If serve returns an error before that, the response is a
// problem.
func (r *Routes) Stream(pattern string, serve func(*Exchange) error) error {
	return r.Mux.HandlePath(http.MethodPost, pattern,
		r.h.streamed(func(w http.ResponseWriter, req *http.Request, params map[string]string, f form) {
			if again(w, req) {
				return
			}
			if err := serve(&Exchange{Params: params, h: r.h, w: w, r: req, form: f}); err != nil {
				r.h.fail(w, req, err)
			}
		}))
}

// Exchange is a request with a streamed response.
type Exchange struct {
	Params map[string]string // path parameters
	h      *Handler
	w      http.ResponseWriter
	r      *http.Request
	form   form
}

// Decode decodes the body.
func (e *Exchange) Decode(m proto.Message) error {
	return new(marshaler).NewDecoder(e.r.Body).Decode(m)
}

// Outgoing returns the context of a call of a capability, with the metadata of the request's headers.
func (e *Exchange) Outgoing(capability string) (context.Context, error) {
	return toCapability(outgoing(e.r), capability)
}

// Outgoing forwards the metadata that grpc-gateway derived, and adds the capability of the path.
func Outgoing(ctx context.Context, made metadata.MD, capability string) (context.Context, error) {
	return toCapability(withMetadata(ctx, made), capability)
}

// toCapability adds the capability of the path to the metadata.
func toCapability(ctx context.Context, capability string) (context.Context, error) {
	if !header.IsASCII(capability) { // no such capability; the name is invalid in metadata
		return nil, noSuchPath()
	}
	out, _ := metadata.FromOutgoingContext(ctx)
	out.Set("x-capability-id", capability)
	return metadata.NewOutgoingContext(ctx, out), nil
}

// Pieces converts the messages of a stream to records.
type Pieces[T any] struct {
	Call func(context.Context) (grpc.ServerStreamingClient[T], error)
	// Record returns a message as the members of a JSON object, without its braces.
	Record func(*T) (event string, members []byte, err error)
	// Verdict returns an error if a stream with status OK was incomplete.
	Verdict func() error
	Failed  string // event of the last record of a failed call
	// Header is metadata of the stream that becomes a header of the response; empty means none.
	Header string
}

// ServeStream makes a call and responds with a record for each of its messages. The response starts with the first
// message; an earlier error is an HTTP status.
func ServeStream[T any](ctx context.Context, e *Exchange, p Pieces[T]) {
	to := e.h.recordsTo(e.w, e.form)
	var header atomic.Pointer[string]
	to.out.Late = func() {
		if value := header.Load(); value != nil {
			e.w.Header().Set(p.Header, *value)
		}
	}
	serveAnswer(ctx, e.h, e.w, e.r, to, func(ctx context.Context, tell func(*T) error) error {
		stream, err := p.Call(ctx)
		if err == nil && p.Header != "" {
			md, _ := stream.Header() // Recv returns the error
			if values := md.Get(p.Header); len(values) == 1 {
				header.Store(&values[0])
			}
		}
		return received(stream, err, tell)
	}, &pieces[T]{records: to, of: p})
}

// pieces implements answer with Pieces.
type pieces[T any] struct {
	*records
	of Pieces[T]
}

func (p *pieces[T]) tell(m *T) error {
	event, members, err := p.of.Record(m)
	if err != nil {
		return err
	}
	return p.record(event, members)
}

func (p *pieces[T]) verdict() error { return p.of.Verdict() }

func (p *pieces[T]) done() error { return p.record(recordDone, nil) }

func (p *pieces[T]) failed(all problem.Problem) error { return p.problem(p.of.Failed, all) }

// Members returns the members of a message's JSON object, without its braces.
func Members(m proto.Message) ([]byte, error) {
	text, err := encodeMessage(m)
	if err != nil {
		return nil, err
	}
	return text[1:bytes.LastIndexByte(text, '}')], nil
}

// Invalid returns the error of an invalid body.
func Invalid(detail string) error { return invocation.Invalid(detail) }

// Unprocessable returns the error that a backend reported in a stream with status OK.
func Unprocessable(reason, detail string, of map[string]string) error {
	return &call.Refusal{Kind: call.Unknown, Reason: reason, Message: detail,
		Metadata: of, Progress: call.Sent}
}

// CutOff returns the error of a stream with status OK whose last piece is missing.
func CutOff(detail string) error { return cutOff(detail) }
