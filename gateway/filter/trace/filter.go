package trace

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/telemetry/tracing"
)

// Filter begins the spans of calls that are sampled. The zero value traces nothing.
type Filter struct{ tracer *tracing.Tracer }

// New returns a Filter. A nil tracer traces nothing.
func New(t *tracing.Tracer) Filter { return Filter{t} }

// Note begins the span of a call that is sampled. Of any other it only takes note of the trace that it belongs to, if
// any: its trace context goes on as it came. One that cannot be read goes no further.
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
	if t.Trace.IsZero() && t.Client.Drawn != nil {
		parent = tracing.Sampled(*t.Client.Drawn)
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
			t.Span.OverMCP()
		}
	}
}

// Headers are those of a request.
type Headers interface {
	Header(name string) (string, bool)
}

// Draw decides whether the calls begin a trace that a request over HTTP becomes, where the request is in none: its
// response is to name the trace. nil means the request is in a trace, or nothing is traced.
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
