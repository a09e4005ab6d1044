package router

import "time"

// Class is the meaning of the end of a call for its backend.
type Class uint8

// The classes.
const (
	Neutral     Class = iota // no evidence: the caller left, or the gateway ended the call
	Succeeded                // the backend answered; a tool's own error is an answer
	Failed                   // UNAVAILABLE, a broken stream, or a protocol error
	TimedOut                 // no answer before the deadline
	Unreachable              // no connection could be made
	Refused                  // the same, as the port is closed
)

var classNames = [...]string{"neutral", "succeeded", "failed", "timed out", "unreachable", "connection refused"}

// unconnected reports whether no connection could be made.
func (c Class) unconnected() bool { return c == Unreachable || c == Refused }

func (c Class) String() string { return classNames[c] }

// Outcome is the report of a call about its backend.
type Outcome struct {
	Class Class
	// Latency is the time from sending the call to the first byte of the answer. Without an answer it
	// is the time waited; 0: unknown.
	Latency time.Duration
	// Took is the time from sending the call to its end, if its response is one message; 0: unknown.
	Took time.Duration
	At   time.Time // end of the call; zero: now, which costs a reading of the clock
}
