package tracing

import (
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
)

// Span is a traced call. The methods of a nil Span do nothing. Wait, Resume and Traceparent are safe for
// concurrent use; the others need synchronization.
type Span struct {
	tracer       trace.Tracer
	ctx          context.Context // of server
	server       trace.Span
	client       trace.Span // of the current attempt; nil: none
	attemptStart time.Time  // of the current attempt
	attempts     int
	overMCP      bool // the attempts are requests of MCP
}

// TraceID returns zero for nil.
func (s *Span) TraceID() telemetry.TraceID {
	if s == nil {
		return telemetry.TraceID{}
	}
	return telemetry.TraceID(s.server.SpanContext().TraceID())
}

// Traceparent returns that of the call's server span, "" for nil.
func (s *Span) Traceparent() string {
	if s == nil {
		return ""
	}
	return text(s.server.SpanContext())
}

// OverMCP records that the call is a tools/call over MCP in a revision. unix reports whether its client is connected to
// a Unix domain socket.
func (s *Span) OverMCP(revision call.Revision, unix bool) {
	s.server.SetAttributes(mcpMethod.String("tools/call"), mcpRevision.String(revision.String()),
		networkTransport.String(telemetry.Transport(unix)))
}

// Causes of waits.
const (
	ForMessage  = "message" // it is being decompressed
	ForIdentity = "identity"
	ForDecision = "decision"
	ForPolicy   = "policy"
	ForShield   = "shield"
	ForApproval = "approval" // of a person, or its lookup
	ForSession  = "session"  // lookup of a session or an artifact
	ForCapacity = "place"    // permit of a backend at its limit
	ForBackend  = "backend"  // protocol detection
	ForRetry    = "retry"
	// ForAssertion is its signature.
	ForAssertion = "assertion"
)

// Wait records that the call begins to wait.
func (s *Span) Wait(what string) {
	if s != nil {
		s.server.AddEvent(eventWait, trace.WithAttributes(capgateFor.String(what)))
	}
}

// Resume records the end of the wait.
func (s *Span) Resume(what string) {
	if s != nil {
		s.server.AddEvent(eventGo, trace.WithAttributes(capgateFor.String(what)))
	}
}

// Approved links the call to the call that requested its approval. traceparent is the latter's Traceparent, or "".
func (s *Span) Approved(traceparent string) {
	if s == nil {
		return
	}
	asked, ok := ParseParent(traceparent)
	if !ok || asked.span == s.server.SpanContext().SpanID() { // the same call has waited for the answer
		return
	}
	s.server.AddLink(trace.Link{SpanContext: asked.context(""),
		Attributes: []attribute.KeyValue{capgateLink.String(approvalAsked)}})
}

// StartAttempt starts the span of an attempt at a backend with a path, and returns its traceparent.
func (s *Span) StartAttempt(addr, path string) string {
	name, attrs := rpc(path)
	return s.start(addr, name, attrs)
}

// StartMCPAttempt starts the span of an attempt at an MCP server with a method, and returns its traceparent. tool is
// that of tools/call; "": the method has none.
func (s *Span) StartMCPAttempt(addr, method, tool string) string {
	name, attrs := method, []attribute.KeyValue{mcpMethod.String(method),
		networkTransport.String(telemetry.Transport(false))}
	if tool != "" {
		tool = plain(tool)
		name, attrs = method+" "+tool, append(attrs, executeTool, toolName.String(tool))
	}
	s.overMCP = true
	return s.start(addr, name, attrs)
}

// start starts the span of an attempt.
func (s *Span) start(addr, name string, attrs []attribute.KeyValue) string {
	s.attempts++
	attrs = append(attrs, capgateAttempt.Int(s.attempts))
	if host, port, err := net.SplitHostPort(authority(addr)); err == nil {
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

// authority returns the host and the port of a backend, which may be a URL.
func authority(addr string) string {
	scheme, rest, isURL := strings.Cut(addr, "://")
	if !isURL {
		return addr
	}
	host, _, _ := strings.Cut(rest, "/")
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	if scheme == "https" {
		return net.JoinHostPort(strings.Trim(host, "[]"), "443")
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), "80")
}

// AttemptFailed ends an attempt that did not start, or is retried.
func (s *Span) AttemptFailed() {
	if s != nil {
		s.endAttempt(codeUnavailable, telemetry.NoOutcome, time.Now())
	}
}

func (s *Span) endAttempt(code uint32, outcome telemetry.Outcome, at time.Time) {
	if s.client == nil {
		return
	}
	attrs, status := ended(code, ^uint32(1))
	if s.overMCP {
		attrs = attrs[1:] // the status of RPC is not one of JSON-RPC
		if outcome == telemetry.ToolError {
			attrs, status = append(attrs, errorType.String(toolError)), codes.Error
		}
	}
	s.client.SetAttributes(attrs...)
	s.client.SetStatus(status, "")
	if at.Before(s.attemptStart) { // the relay reads its clock once per turn
		at = s.attemptStart
	}
	s.client.End(trace.WithTimestamp(at))
	s.client = nil
}

// EndAttempt ends the attempt that got the call's response, which may be changed for the caller. Its first byte came at
// firstByte; zero: none came. A tool's own error is one of an attempt at an MCP server, by the conventions of MCP.
func (s *Span) EndAttempt(code uint32, outcome telemetry.Outcome, firstByte, ended time.Time) {
	if s == nil || s.client == nil {
		return
	}
	if !firstByte.IsZero() {
		s.client.AddEvent(firstByteEvent, trace.WithTimestamp(firstByte))
	}
	s.endAttempt(code, outcome, ended)
}

// End ends the call's spans. It does not retain rec.
func (s *Span) End(rec *telemetry.Record) {
	if s == nil {
		return
	}
	at := rec.Started.Add(rec.Ended)
	s.endAttempt(rec.Code, rec.Outcome, at)
	c := rec.Call
	attrs, status := ended(rec.Code, serverErrors)
	if rec.Outcome == telemetry.ToolError {
		attrs, status = append(attrs, errorType.String(toolError)), codes.Error
	}
	if c.Method == call.Other && rec.Code == codeUnimplemented && s.attempts == 0 {
		name, _ := rpc(c.Path)
		s.server.SetName(otherMethod)
		attrs = append(attrs, rpcMethod.String(otherMethod), rpcMethodOriginal.String(name))
	}
	attrs = append(attrs, capgateBytesIn.Int64(rec.BytesIn), capgateBytesOut.Int64(rec.BytesOut))
	add := func(key attribute.Key, value string) {
		if value != "" {
			attrs = append(attrs, key.String(plain(value)))
		}
	}
	summary := rec.Summary()
	add(capgateTenant, summary.Tenant)
	add(capgateCapability, summary.Capability)
	add(capgateOutcome, summary.Outcome)
	add(capgateReason, summary.Reason)
	add(capgateFailure, summary.Failure)
	add(capgatePolicy, summary.Verdict)
	if c.Method == call.Invoke || c.Method == call.StreamInvoke {
		attrs = append(attrs, executeTool)
		add(toolName, summary.Tool)
		add(agentID, summary.Agent)
	}
	s.server.SetAttributes(attrs...)
	if status == codes.Error {
		s.server.SetStatus(status, rec.Reason+rec.Failure)
	}
	s.server.End(trace.WithTimestamp(at))
}
