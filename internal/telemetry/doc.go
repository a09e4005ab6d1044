// Package telemetry counts finished calls and writes the access log. It decides nothing, and does no I/O on a
// call's goroutine.
//
//	            ┌─ Metrics ── cells of plain atomics ◄── scrape sums them
//	Recorder ───┤
//	            └─ AccessLog ── pending bytes ──► one goroutine ──► sink
//
// A [Recorder] runs under a shard's lock on the goroutine that read the bytes, so it never blocks and, in the steady
// state, allocates nothing. Every label comes from a bounded set: capabilities from the configuration, methods, codes
// and outcomes from enumerations, reasons from at most maxReasons distinct words.
//
// Arguments, config, results, sessions and credentials are not passed to this package.
package telemetry
