package router

import (
	"cmp"
	"context"
	"time"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// PermitStore shares the permits of limited fleets' backends among replicas, through a shared store. Calls
// never wait for it while their replica has a free permit.
type PermitStore interface {
	// Exchange reports the permits that this replica holds and needs for the backends of a capability, and returns
	// those that it may have, in the order of wants. It ends in bounded time. After an error its effect is unknown; the
	// next exchange corrects it.
	Exchange(ctx context.Context, capability string, wants []Demand) ([]Grant, error)
	// Listen calls notify when another replica begins to wait for a permit of a capability, or returns
	// one that others wait for, until ctx ends. Notifications may be lost. notify must not block.
	Listen(ctx context.Context, notify func(capability string))
	// Unavailable reports whether the store is known to be unavailable. It does not block.
	Unavailable() bool
}

// Demand is a replica's demand for the permits of one backend.
type Demand struct {
	Addr  string
	Limit int // permits of all replicas together; 0: the limit was removed
	Used  int // permits in use by calls
	// Retain is the number of permits that the replica retains, at least Used. Of the others it keeps
	// what the store still has for it.
	Retain int
	Need   int    // more, for calls that wait
	Spare  int    // more, for calls to come; only while no replica waits
	Seq    uint64 // grows with each Want of this replica; an older one must not undo a newer
}

// Grant is the answer to a Want.
type Grant struct {
	Held     int // permits that the replica has now, at least Used
	Waiting  int // other replicas with waiting calls
	Replicas int // that have or want permits, including this one
}

const (
	// renewEvery is the interval at which a replica renews its permits, and returns unneeded ones.
	renewEvery = time.Second
	// pollEvery is the interval at which it repeats the demands of waiting calls, in case a notification is lost.
	pollEvery = 50 * time.Millisecond
	// forgetAfter is the time by which the limiter of a capability outlives its fleet.
	forgetAfter = time.Minute
	// maxAsked bounds the backends that waiting calls ask for permits, if there are not more calls.
	maxAsked = 16
	// maxExchanges bounds the concurrent exchanges; each is of another capability.
	maxExchanges = 16
)

// Limit bounds the concurrent calls of a backend, and the calls that wait for it.
type Limit struct {
	// Concurrent calls of each backend, of all replicas together; 0: no limit.
	PerBackend int `yaml:"max_concurrent" min:"0" max:"100000" default:"0"`
	// Calls that wait for a backend. Further calls are rejected.
	Queue Queue `yaml:"queue"`
}

// Queue has the calls of a fleet that wait for a backend.
type Queue struct {
	// Maximum wait of a call; 0s: no call waits. Its deadline includes the wait. At most 100 calls of the fleet wait in
	// each replica.
	Wait time.Duration `yaml:"wait" default:"10s"`
	// Size is the maximum number of calls of the fleet that wait in this replica; default 100; negative: none.
	Size int `yaml:"-"`
}

// Check completes a queue of the file, where 0s means that no call waits.
func (q *Queue) Check(strictyaml.At) {
	if q.Wait == 0 {
		q.Size = -1
	}
}

// of returns the limit of a backend; 0: none.
func (l Limit) of(b *BackendConfig) int {
	if b.Limit == 0 {
		return max(l.PerBackend, 0)
	}
	return max(b.Limit, 0)
}

func (l Limit) withDefaults() Limit {
	l.Queue.Size = max(cmp.Or(l.Queue.Size, 100), 0)
	l.Queue.Wait = cmp.Or(l.Queue.Wait, defaults().Limit.Queue.Wait)
	return l
}
