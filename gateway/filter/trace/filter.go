package trace

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
)

// Filter starts the spans of sampled calls. The zero value traces nothing.
type Filter struct{ tracer *tracing.Tracer }

// New returns a Filter. If t is nil, nothing is traced.
func New(t *tracing.Tracer) Filter { return Filter{t} }

// Note starts the span of a sampled call. For other calls it only records the trace that they belong to, and their
// trace context is forwarded unchanged. An invalid trace context is not forwarded.
func (f Filter) Note(t *filter.Call) {
	if f.tracer == nil {
		return
	}
	s := t.Stream
	text, present := s.Header(tracing.Traceparent)
	parent, ok := tracing.ParseParent(text)
	if present && (!ok || s.Contradicts(tracing.Traceparent)) {
		parent = tracing.Parent{}
		s.DropHeader(tracing.Traceparent)
	}
	t.Trace = parent.TraceID()
	if t.Trace.IsZero() && t.Details.Drawn != nil {
		parent = tracing.Sampled(*t.Details.Drawn)
	}
	sampled := f.tracer.Samples(parent)
	state, present := s.Header(tracing.Tracestate)
	if present && (t.Trace.IsZero() || sampled && !tracing.IsState(state)) {
		s.DropHeader(tracing.Tracestate)
		state = ""
	}
	if sampled {
		t.Span = f.tracer.Start(parent, state, &t.Info, s.Started())
		t.Trace = t.Span.TraceID()
		if t.Client.Protocol == call.MCP {
			t.Span.OverMCP(t.Client.Revision, t.Client.Unix)
		}
	}
}

// Headers gives access to the request headers.
type Headers interface {
	Header(name string) (string, bool)
}

// Draw decides whether the calls of an HTTP request start a sampled trace, so that its response can name the trace. It
// returns nil if the request already has a trace, or nothing is traced.
func (f Filter) Draw(r Headers) *telemetry.TraceID {
	if f.tracer == nil {
		return nil
	}
	text, _ := r.Header(tracing.Traceparent)
	if _, ok := tracing.ParseParent(text); ok {
		return nil
	}
	id := f.tracer.SampleTraceID()
	return &id
}
