package tracing

import (
	"encoding/hex"
	"strings"

	"go.opentelemetry.io/otel/trace"

	"github.com/capgate/capgate/internal/telemetry"
)

// Metadata keys of trace context.
const (
	Traceparent = "traceparent"
	Tracestate  = "tracestate"
)

// Parent is the parent span of a call. The zero value is none.
type Parent struct {
	trace   trace.TraceID
	span    trace.SpanID
	flags   trace.TraceFlags
	sampled bool // no parent; SampleTraceID has decided: trace is the id of the new trace, zero: none
}

// textLength is the length of a traceparent of version 00: 00-<trace>-<span>-<flags>.
const textLength = 2 + 1 + 32 + 1 + 16 + 1 + 2

// ParseParent parses a traceparent. ok is false if it must be ignored (Trace Context §3.2). A later version is parsed
// as version 00 (§4).
func ParseParent(text string) (p Parent, ok bool) {
	if len(text) < textLength || text[2] != '-' || text[35] != '-' || text[52] != '-' {
		return Parent{}, false
	}
	var version, flags [1]byte
	if !decodeHex(version[:], text[:2]) || !decodeHex(p.trace[:], text[3:35]) || !decodeHex(p.span[:], text[36:52]) ||
		!decodeHex(flags[:], text[53:55]) {
		return Parent{}, false
	}
	switch {
	case version[0] == 0xff, version[0] == 0 && len(text) > textLength, len(text) > textLength &&
		text[textLength] != '-':
		return Parent{}, false
	case !p.trace.IsValid() || !p.span.IsValid():
		return Parent{}, false
	}
	p.flags = trace.TraceFlags(flags[0]) & (trace.FlagsSampled | trace.FlagsRandom)
	return p, true
}

// decodeHex decodes lower-case digits.
func decodeHex(to []byte, text string) bool {
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

// TraceID returns zero without a parent.
func (p Parent) TraceID() telemetry.TraceID { return telemetry.TraceID(p.trace) }

func (p Parent) exists() bool { return p.span.IsValid() }

// IsState reports whether a tracestate is valid. An invalid one is not forwarded (§3.3).
func IsState(text string) bool {
	_, err := trace.ParseTraceState(text)
	return err == nil
}

// context returns the parent as a SpanContext, with the tracestate if it is valid.
func (p Parent) context(tracestate string) trace.SpanContext {
	state, _ := trace.ParseTraceState(strings.Clone(tracestate)) // it retains parts of the text
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: p.trace, SpanID: p.span, TraceFlags: p.flags,
		TraceState: state, Remote: true})
}

// text returns the traceparent for a span's children.
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
