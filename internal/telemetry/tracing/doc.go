// Package tracing makes spans of calls and sends them to an OpenTelemetry collector. It
// decides nothing about a call, and only calls that are sampled cost anything:
//
//	Tracer.Samples ─► Begin ─► Span ── server span of the gateway, with events while the call waits
//	                             └───── client span of each try, the backend's parent
//	                                        │ when they end
//	                                      outbox ── bounded queue; one goroutine ──► OTLP
//
// Trace context is W3C's, https://www.w3.org/TR/trace-context/. A call that its caller or
// chance does not sample goes on with the context that it came with, unchanged.
//
// Arguments, config, results, sessions and credentials never come here. names.go has every
// name that a span has.
package tracing
