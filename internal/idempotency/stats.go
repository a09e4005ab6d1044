package idempotency

import "sync/atomic"

// Stats count the work of this replica. All but Running and Waiting only grow.
type Stats struct {
	Calls   map[string]int64 // by outcome, a bounded set
	Running int64            // calls that this replica executes
	Waiting int64            // callers that wait for the end of a call
}

// result is the outcome of a call with a key.
type result int

const (
	executed    result = iota // it was executed
	notStarted                // it was not, and the key is free
	replayed                  // it got the stored response
	joined                    // it waited for the response
	reused                    // the key belongs to another call
	unknown                   // its outcome is unknown
	tooLarge                  // the response is not stored
	notExecuted               // it must not be executed, and was not before
	full                      // the tenant has too many keys
	unavailable               // the store did not answer, too many calls are in flight, or there is no encryption key
	callerLeft                // its caller did not wait
	retry                     // it has to start again; never counted
	results     = retry
)

var resultNames = [results]string{
	"first", "not_started", "replayed", "joined", "reused", "unknown", "too_large", "unkept", "full",
	"unavailable", "left",
}

type counters struct {
	calls            [results]atomic.Int64
	running, waiting atomic.Int64
}

// Stats returns the current counters.
func (k *Service) Stats() Stats {
	s := Stats{Calls: map[string]int64{}, Running: k.counted.running.Load(), Waiting: k.counted.waiting.Load()}
	for f, name := range resultNames {
		s.Calls[name] = k.counted.calls[f].Load()
	}
	return s
}
