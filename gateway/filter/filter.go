package filter

import "github.com/capgate/capgate/gateway/relay"

// Step is the decision of a filter about a call.
type Step uint8

// Steps.
const (
	Continue Step = iota // with the next filter
	Read                 // the first message, which must be the only one; Admit is called again with it
	ReadAny              // the first of possibly several messages; Admit is called again with it
	Wait                 // until Pause.Resume, which the filter has arranged; Admit is called again then
	Stop                 // after Reject, Reply, Forward or Serve
	Again                // with the first filter of the attempt
)

// Filter makes one decision about calls. A Filter is shared by all calls; S is its state of one call, a field of the
// pooled per-call struct, which is zero when the call starts. A state of the call's opening is zero again for Done if
// the response of a backend has started, unless code in the process serves the call.
type Filter[S any] interface {
	// Admit runs on a connection's reader. It must decide from memory and must not block.
	Admit(*Call, *S) Step
	// Done runs once for each Admit that did not reject, also if the call still waits, in reverse order. Filters of an
	// attempt also run Done before each further attempt.
	Done(*Call, *S, *Result)
}

// Stateless is the state of a stateless filter.
type Stateless struct{}

// Result is the result of a call or of an attempt.
type Result struct {
	*relay.Result       // of the call; nil if another attempt follows
	Final         bool  // the call has ended
	Unsent        error // why the attempt did not start; nil if it started, or a filter returned Again
}
