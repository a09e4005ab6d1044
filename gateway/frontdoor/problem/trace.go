package problem

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/internal/telemetry/tracing"
)

// traced is the trace that the gateway starts with the call of a request.
type traced struct {
	id     string // 32 hexadecimal digits
	called atomic.Bool
}

type tracedKey struct{}

// WithTrace returns a request whose calls start a trace.
func WithTrace(r *http.Request, id string) *http.Request {
	return request.With(r, tracedKey{}, &traced{id: id})
}

// Called records that the request of ctx has become a call. A request that was rejected before that has no trace.
func Called(ctx context.Context) {
	if t, ok := ctx.Value(tracedKey{}).(*traced); ok {
		t.called.Store(true)
	}
}

// traceOf returns the trace of a request: the client's, or the one that the gateway started; empty means none.
func traceOf(r *http.Request) string {
	if parent, ok := tracing.ParseParent(r.Header.Get(tracing.Traceparent)); ok {
		return parent.TraceID().Text()
	}
	if t, ok := r.Context().Value(tracedKey{}).(*traced); ok && t.called.Load() {
		return t.id
	}
	return ""
}
