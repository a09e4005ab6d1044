package filter

import "github.com/capgate/capgate/gateway/relay"

// Step is what a filter has decided about a call for now.
type Step uint8

// The steps.
const (
	Continue Step = iota // to the next filter
	Read                 // the first message, which is also the only one; Admit is called again with it
	ReadAny              // the first message of those that may come; Admit is called again with it
	Wait                 // until Pause.Resume, which the filter has arranged for; Admit is called again then
	Stop                 // the call has its answer: after Reject, Reply or Serve
	Again                // the attempt begins anew
)

// A Filter decides one thing about calls. All calls share it; S is its state of one call, a field of the pooled
// per-call struct, which is zero when the call begins.
type Filter[S any] interface {
	// Admit runs on a connection's reader: it answers from memory and never blocks.
	Admit(*Call, *S) Step
	// Done runs once for each Admit that did not reject, also for one that still waits, in reverse order. For
	// filters of an attempt it also runs before each further attempt.
	Done(*Call, *S, *Result)
}

// Stateless is the state of a filter that has none.
type Stateless struct{}

// Result is how a call ended, or an attempt of it.
type Result struct {
	*relay.Result       // of the call; nil for an attempt that another one follows
	Final         bool  // the call has ended
	Unsent        error // why the attempt did not start; nil means it started, or a filter returned Again
}
