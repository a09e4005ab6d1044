// Package pick implements the filter that picks the endpoint of an attempt and takes a permit for it in one step: the
// pinned one, the one required by an earlier filter, or the less loaded of two random ones. In a fleet with a
// concurrency limit, calls wait for a permit in a queue.
//
//	filter.go   picks, waits, returns the permit
//	outcome.go  evaluates the end of an attempt, for outlier detection and latency
//
// router.Fleet has the host set and the pickers.
package pick
