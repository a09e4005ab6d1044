// Package trace implements the filter that starts the span of a sampled call. It runs before any filter that can wait,
// so that the span covers the whole call. filter/forward has the spans of attempts, and the access log ends the
// call's.
package trace
