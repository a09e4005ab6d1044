// Package pick is the filter that picks the endpoint of an attempt and takes a permit of it, in one step: the pinned
// one, the one that an earlier filter has directed the call to, or the less loaded of two that are drawn at random. In
// a fleet with a concurrency limit a call waits in the queue for a permit.
//
//	filter.go   picks, waits, gives the permit back
//	outcome.go  what the end of an attempt says of the backend, for outlier detection and latency
//
// router.Fleet has the host set and the pickers. The filter never looks at health itself, and never retries.
package pick
