// Package tracing creates spans of calls and sends them to an OpenTelemetry collector. It decides nothing about a
// call, and only sampled calls cost anything:
//
//	Tracer.Samples ─► Start ─► Span ── server span of the gateway, with events while the call waits
//	                             └───── client span of each attempt, the backend's parent
//	                                        │ at their end
//	                                exportQueue ── bounded; one goroutine ──► OTLP
//
// Trace context is W3C's, https://www.w3.org/TR/trace-context/. A call that is not sampled is forwarded with its
// context unchanged.
//
// Arguments, config, results, sessions and credentials never reach this package. names.go has every name in spans.
package tracing
