package tracing

import (
	"context"
	"net"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
)

// Span is a call that is traced. The methods of nil do nothing. Wait, Resume and Traceparent
// may be called from any goroutine; all others by one at a time.
type Span struct {
	tracer       trace.Tracer
	ctx          context.Context // of server
	server       trace.Span
	client       trace.Span // of the present try; nil: there is none
	attemptStart time.Time  // of that
	attempts     int
}

// TraceID is zero for nil.
func (s *Span) TraceID() telemetry.TraceID {
	if s == nil {
		return telemetry.TraceID{}
	}
	return telemetry.TraceID(s.server.SpanContext().TraceID())
}

// Traceparent names the call's server span, "" for nil.
func (s *Span) Traceparent() string {
	if s == nil {
		return ""
	}
	return text(s.server.SpanContext())
}

// What calls wait for.
const (
	ForMessage  = "message" // that is being unpacked
	ForIdentity = "identity"
	ForDecision = "decision"
	ForPolicy   = "policy"
	ForShield   = "shield"
	ForApproval = "approval" // of a person, or to learn of one
	ForSession  = "session"  // or an artifact: where it is
	ForCapacity = "place"    // at a backend that has as many calls as it may
	ForBackend  = "backend"  // which dialect it speaks
	ForRetry    = "retry"
)

// Wait says that the call waits now.
func (s *Span) Wait(what string) {
	if s != nil {
		s.server.AddEvent(eventWait, trace.WithAttributes(capgateFor.String(what)))
	}
}

// Resume says that it waits no more.
func (s *Span) Resume(what string) {
	if s != nil {
		s.server.AddEvent(eventGo, trace.WithAttributes(capgateFor.String(what)))
	}
}

// Approved links the call to the one that asked for the approval which this one uses:
// traceparent is what that answered to Traceparent, or "".
func (s *Span) Approved(traceparent string) {
	if s == nil {
		return
	}
	asked, ok := ParseParent(traceparent)
	if !ok || asked.span == s.server.SpanContext().SpanID() { // it has waited for the answer itself
		return
	}
	s.server.AddLink(trace.Link{SpanContext: asked.context(""),
		Attributes: []attribute.KeyValue{capgateLink.String(approvalAsked)}})
}

// StartAttempt begins a try at a backend, by a path of it, and answers with the traceparent for it.
func (s *Span) StartAttempt(addr, path string) string {
	s.attempts++
	name, attrs := rpc(path)
	attrs = append(attrs, capgateAttempt.Int(s.attempts))
	if host, port, err := net.SplitHostPort(addr); err == nil {
		attrs = append(attrs, serverAddress.String(plain(host)))
		if n, err := strconv.Atoi(port); err == nil {
			attrs = append(attrs, serverPort.Int(n))
		}
	}
	s.attemptStart = time.Now()
	_, s.client = s.tracer.Start(s.ctx, name, trace.WithTimestamp(s.attemptStart),
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attrs...))
	return text(s.client.SpanContext())
}

// AttemptFailed ends a try that did not start, or is to be made again.
func (s *Span) AttemptFailed() {
	if s != nil {
		s.endAttempt(codeUnavailable, time.Now())
	}
}

func (s *Span) endAttempt(code uint32, at time.Time) {
	if s.client == nil {
		return
	}
	attrs, status := ended(code, ^uint32(1))
	s.client.SetAttributes(attrs...)
	s.client.SetStatus(status, "")
	if at.Before(s.attemptStart) { // by the relay's clock, which stands still while it works
		at = s.attemptStart
	}
	s.client.End(trace.WithTimestamp(at))
	s.client = nil
}

// EndAttempt ends the try that got the call's answer, which its caller may not get as it is.
func (s *Span) EndAttempt(rec *telemetry.Record) {
	if s == nil {
		return
	}
	if s.client != nil && rec.FirstByte > 0 {
		s.client.AddEvent(firstByte, trace.WithTimestamp(rec.Started.Add(rec.FirstByte)))
	}
	s.endAttempt(rec.Code, rec.Started.Add(rec.Ended))
}

// End ends the call's spans. It keeps nothing of rec.
func (s *Span) End(rec *telemetry.Record) {
	if s == nil {
		return
	}
	s.EndAttempt(rec)
	at := rec.Started.Add(rec.Ended)
	c := rec.Call
	attrs, status := ended(rec.Code, serverErrors)
	attrs = append(attrs, capgateBytesIn.Int64(rec.BytesIn), capgateBytesOut.Int64(rec.BytesOut))
	add := func(key attribute.Key, value string) {
		if value != "" {
			attrs = append(attrs, key.String(plain(value)))
		}
	}
	add(capgateTenant, c.Tenant)
	add(capgateCapability, c.Capability)
	add(capgateOutcome, rec.Outcome.String())
	add(capgateReason, rec.Reason)
	add(capgateFailure, rec.Failure)
	if rec.Decision.Made {
		add(capgatePolicy, rec.Decision.Verdict.String())
	}
	if c.Method == call.Invoke || c.Method == call.StreamInvoke {
		attrs = append(attrs, executeTool)
		add(toolName, c.Tool)
		add(agentID, c.Agent)
	}
	s.server.SetAttributes(attrs...)
	if status == codes.Error {
		s.server.SetStatus(status, rec.Reason+rec.Failure)
	}
	s.server.End(trace.WithTimestamp(at))
}
