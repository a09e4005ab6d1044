package router

import "time"

// Class is what the end of a call says about the backend that had it.
type Class uint8

// The classes.
const (
	Neutral     Class = iota // nothing: the caller left, or the gateway itself ended the call
	Succeeded                // it answered, whatever it said: a tool's own error is an answer
	Failed                   // it said that it cannot serve (UNAVAILABLE), broke off, or broke the protocol
	TimedOut                 // it said nothing in the call's time
	Unreachable              // no connection to it could be made
)

var classNames = [...]string{"neutral", "succeeded", "failed", "timed out", "unreachable"}

func (c Class) String() string { return classNames[c] }

// Outcome is what a call learned about its backend.
type Outcome struct {
	Class Class
	// Latency is the time from sending the call to the first byte of the answer; of a
	// call that has none, how long it was waited for; 0 when it is not known.
	Latency time.Duration
	At      time.Time // when the call ended; zero: now, for the price of reading the clock
}
