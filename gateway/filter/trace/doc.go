// Package trace is the filter that begins the span of a call, if its trace or chance has it sampled. It comes before
// anything can wait, so that the span has all of the call. Attempts at backends are spans of filter/forward, and the
// access log ends the call's.
package trace
