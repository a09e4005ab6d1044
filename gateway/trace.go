package gateway

import (
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/observe/tracing"
)

// trace begins the span of a call that is sampled. Of any other it only takes note of the trace
// that it belongs to, if any: its trace context goes on as it came. One that cannot be read
// goes no further.
func (h *handler) trace(s *relay.Stream, t *transit) {
	if h.tracer == nil || t.own {
		return
	}
	text, given := s.Header(tracing.Traceparent)
	parent, ok := tracing.ParseParent(text)
	if given && (!ok || s.Contradicts(tracing.Traceparent)) {
		parent = tracing.Parent{}
		s.DropHeader(tracing.Traceparent)
	}
	t.trace = parent.TraceID()
	sampled := h.tracer.Samples(parent)
	state, given := s.Header(tracing.Tracestate)
	if given && (t.trace.IsZero() || sampled && !tracing.IsState(state)) {
		s.DropHeader(tracing.Tracestate)
		state = ""
	}
	if sampled {
		t.span = h.tracer.Begin(parent, state, &t.call, s.Started())
		t.trace = t.span.TraceID()
	}
}

// traceTry lets a backend know which span its own are children of.
func (t *transit) traceTry(s *relay.Stream, path string) {
	if t.span != nil {
		s.SetHeader(tracing.Traceparent, t.span.Try(t.target.Addr, path))
	}
}
