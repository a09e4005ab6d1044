// Package warm implements the filter that makes a call wait for the protocol detection of its backend, whose dialect
// is unknown before. The wait is bounded by router.Backend.
package warm
