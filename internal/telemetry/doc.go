// Package telemetry is the last of a call's five steps: it counts what became of a
// call and writes its log line. It decides nothing and does no I/O on the call's
// goroutine.
//
//	            ┌─ Metrics ── cells of plain atomics ◄── scrape sums them
//	Recorder ───┤
//	            └─ AccessLog ── pending bytes ──► one goroutine ──► sink
//
// A [Recorder] runs under a shard's lock on the goroutine that read the bytes, so
// it never blocks and, in steady state, allocates nothing. Every label comes from
// a bounded set: capabilities from the configuration, methods, codes and outcomes
// from enumerations, reasons from at most maxReasons distinct words.
//
// Arguments, config, results, sessions and credentials never come here.
package telemetry
