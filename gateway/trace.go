package gateway

import (
	"net/http"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
)

// trace begins the span of a call that is sampled. Of any other it only takes note of the trace
// that it belongs to, if any: its trace context goes on as it came. One that cannot be read
// goes no further.
func (h *handler) trace(t *filter.Call) {
	if h.tracer == nil {
		return
	}
	s := t.Stream
	text, given := s.Header(tracing.Traceparent)
	parent, ok := tracing.ParseParent(text)
	if given && (!ok || s.Contradicts(tracing.Traceparent)) {
		parent = tracing.Parent{}
		s.DropHeader(tracing.Traceparent)
	}
	t.Trace = parent.TraceID()
	if t.Trace.IsZero() && t.Client.Drawn != nil {
		parent = tracing.Sampled(*t.Client.Drawn)
	}
	sampled := h.tracer.Samples(parent)
	state, given := s.Header(tracing.Tracestate)
	if given && (t.Trace.IsZero() || sampled && !tracing.IsState(state)) {
		s.DropHeader(tracing.Tracestate)
		state = ""
	}
	if sampled {
		t.Span = h.tracer.Start(parent, state, &t.Info, s.Started())
		t.Trace = t.Span.TraceID()
	}
}

// draw decides whether the calls begin a trace that a request of HTTP becomes, where it is in none: its answer is to
// name the trace.
func (h *handler) draw(r request) *telemetry.TraceID {
	if h.tracer == nil {
		return nil
	}
	text, _ := r.Header(tracing.Traceparent)
	if _, ok := tracing.ParseParent(text); ok {
		return nil
	}
	id := h.tracer.SampleTraceID()
	return &id
}

// naming lets problems name the traces that draw has decided upon.
func naming(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o := visitOf(r).client; o.Drawn != nil && !o.Drawn.IsZero() {
			r = problem.WithTrace(r, o.Drawn.Text())
		}
		next.ServeHTTP(w, r)
	})
}
