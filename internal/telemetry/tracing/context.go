package tracing

import (
	"encoding/hex"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/capgate/capgate/internal/telemetry"
)

// Metadata of trace context.
const (
	Traceparent = "traceparent"
	Tracestate  = "tracestate"
)

// Parent is the span that a call comes from. The zero value is none.
type Parent struct {
	trace   trace.TraceID
	span    trace.SpanID
	flags   trace.TraceFlags
	sampled bool // there is none, and Draw has decided: trace is to begin, or if it is zero, none
}

// textLength is the length of a traceparent of version 00: 00-<trace>-<span>-<flags>.
const textLength = 2 + 1 + 32 + 1 + 16 + 1 + 2

// ParseParent reads a traceparent. It is not ok for one that has to be ignored (Trace
// Context §3.2). A later version is read as the one that we know (§4).
func ParseParent(text string) (p Parent, ok bool) {
	if len(text) < textLength || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return Parent{}, false
	}
	var version, flags [1]byte
	if !unhex(version[:], text[:2]) || !unhex(p.trace[:], text[3:35]) || !unhex(p.span[:], text[36:52]) ||
		!unhex(flags[:], text[53:55]) {
		return Parent{}, false
	}
	switch {
	case version[0] == 0xff, version[0] == 0 && len(text) > textLength, len(text) > textLength && text[textLength] != '-':
		return Parent{}, false
	case !p.trace.IsValid() || !p.span.IsValid():
		return Parent{}, false
	}
	p.flags = trace.TraceFlags(flags[0]) & (trace.FlagsSampled | trace.FlagsRandom)
	return p, true
}

// unhex reads lower-case digits.
func unhex(to []byte, text string) bool {
	for i := range to {
		high, low := digit(text[2*i]), digit(text[2*i+1])
		if high > 15 || low > 15 {
			return false
		}
		to[i] = high<<4 | low
	}
	return true
}

func digit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 0xff
}

// TraceID is zero for no parent.
func (p Parent) TraceID() telemetry.TraceID { return telemetry.TraceID(p.trace) }

func (p Parent) exists() bool { return p.span.IsValid() }

// IsState says whether a tracestate can be read. One that cannot goes no further (§3.3).
func IsState(text string) bool {
	_, err := trace.ParseTraceState(text)
	return err == nil
}

// context is the parent with the tracestate that came with it, if it is one.
func (p Parent) context(tracestate string) trace.SpanContext {
	state, _ := trace.ParseTraceState(strings.Clone(tracestate)) // which keeps parts of it
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: p.trace, SpanID: p.span, TraceFlags: p.flags,
		TraceState: state, Remote: true})
}

// text is the traceparent of a span's children.
func text(c trace.SpanContext) string {
	b := make([]byte, 0, textLength)
	id, span := c.TraceID(), c.SpanID()
	b = append(b, "00-"...)
	b = hex.AppendEncode(b, id[:])
	b = append(b, '-')
	b = hex.AppendEncode(b, span[:])
	b = append(b, '-')
	return string(hex.AppendEncode(b, []byte{byte(c.TraceFlags() & (trace.FlagsSampled | trace.FlagsRandom))}))
}
