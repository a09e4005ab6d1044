package idempotency

import "sync/atomic"

// Stats count what this replica did. All but Running and Waiting only grow.
type Stats struct {
	Calls   map[string]int64 // by what became of them, of which there are few
	Running int64            // calls that this replica carries out now
	Waiting int64            // callers who wait for the end of one
}

// fate is what became of a call that has a key.
type fate int

const (
	first      fate = iota // it was carried out
	notStarted             // it was not, and the key is free
	replayed               // it got the first answer
	joined                 // it waited for that
	reused                 // another call has the key
	unknown                // it was told that the outcome is not known
	tooLarge               // it was told that the answer is not kept
	unkept                 // it may not be carried out, and was not before
	full                   // the tenant has too many keys
	away                   // the store did not answer, or there is too much to do, or no key to encrypt with
	left                   // its caller did not wait
	again                  // it has to begin anew; never counted
	fates      = again
)

var fateNames = [fates]string{"first", "not_started", "replayed", "joined", "reused", "unknown", "too_large", "unkept", "full", "unavailable", "left"}

type counters struct {
	calls            [fates]atomic.Int64
	running, waiting atomic.Int64
}

// Stats may be asked at any time.
func (k *Keeper) Stats() Stats {
	s := Stats{Calls: map[string]int64{}, Running: k.counted.running.Load(), Waiting: k.counted.waiting.Load()}
	for f, name := range fateNames {
		s.Calls[name] = k.counted.calls[f].Load()
	}
	return s
}
