package router

import (
	"context"
	"time"
)

// Slots shares the places at backends of limited fleets among replicas. It is what a
// shared store offers; calls never wait for it while their replica has a place left.
type Slots interface {
	// Exchange tells what this replica keeps and wants of the backends of a capability,
	// and returns what it may have, in the order of wants. It ends in bounded time. After
	// an error it is not known whether it was carried out; the next one sets it right.
	Exchange(ctx context.Context, capability string, wants []Want) ([]Grant, error)
	// Listen calls notice, until ctx ends, when another replica begins to wait for a
	// place of a capability, or gives one back that others wait for. Notices may be lost.
	// notice must not block.
	Listen(ctx context.Context, notice func(capability string))
	// Away says that the store cannot be reached, as far as is known. It does not block.
	Away() bool
}

// Want is what a replica says about one backend.
type Want struct {
	Addr  string
	Limit int    // places of all replicas together; 0: the backend has none any more
	Used  int    // places that calls have now
	Keep  int    // places that the replica has and does not give back, Used at least; of the others only as many as it still has
	Need  int    // more, for calls that wait
	Spare int    // more, for calls to come; only while nobody waits
	Seq   uint64 // grows with each Want of this replica; an older one is not to undo a newer
}

// Grant is the answer to a Want.
type Grant struct {
	Held     int // places that the replica has now, at least Used
	Waiting  int // other replicas whose calls wait
	Replicas int // that have places or wait, this one among them
}

const (
	// renewEvery is how often a replica says again what it has. What it does not need any
	// more it gives back then.
	renewEvery = time.Second
	// pollEvery is how often it asks for what calls wait for, should a notice be lost.
	pollEvery = 50 * time.Millisecond
	// forgetAfter is how long what is known of a capability's places outlives its fleet.
	forgetAfter = time.Minute
	// maxAsked is at how many backends calls ask that may go anywhere, if they are not more.
	maxAsked = 16
	// maxExchanges is how many are under way at once; each is of another capability.
	maxExchanges = 16
)

// Limit bounds the calls that a backend has at once, and those that wait for it.
type Limit struct {
	PerBackend int           // calls at once, of all replicas together; 0: no limit
	Queue      int           // calls of the fleet that may wait in this replica; default 100; negative: none
	Wait       time.Duration // how long one may wait; default 10 s
}

// of is how many calls a backend may have; 0: any number.
func (l Limit) of(b *BackendConfig) int {
	if b.Limit == 0 {
		return max(l.PerBackend, 0)
	}
	return max(b.Limit, 0)
}

func (l Limit) withDefaults() Limit {
	if l.Queue == 0 {
		l.Queue = 100
	}
	l.Queue = max(l.Queue, 0)
	if l.Wait <= 0 {
		l.Wait = 10 * time.Second
	}
	return l
}
