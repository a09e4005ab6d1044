package health

import (
	"time"

	"github.com/capgate/capgate/internal/lib/backoff"
	"github.com/capgate/capgate/internal/lib/tokenbucket"
)

// ReplicaOptions configure a Replica. The zero value works: a replica that shares nothing.
type ReplicaOptions struct {
	// MaxConcurrent bounds the concurrent probes; default 64.
	MaxConcurrent int
	// Jitter returns a random duration from 0 to d, excluding d; default math/rand's.
	Jitter func(d time.Duration) time.Duration

	// Shared says that there are a Membership and a Store. The fields below apply only then.
	Shared bool
	// ID is the name of this replica in the membership: unique, without spaces.
	ID string
	// Heartbeat is the time in which a replica sends two heartbeats; default 2 s.
	Heartbeat time.Duration
	// Stale is the age at which an observation becomes Unknown; default 30 s.
	Stale time.Duration
	// Reconcile is the interval in which each shard's version is checked; default 10 s.
	Reconcile time.Duration
	// Used reports whether a backend had calls lately. Such a backend is probed here while the
	// membership is unavailable. If nil, no backend counts as used.
	Used func(capability, addr string) bool
}

func (o ReplicaOptions) withDefaults() ReplicaOptions {
	if o.MaxConcurrent <= 0 {
		o.MaxConcurrent = 64
	}
	if o.Jitter == nil {
		o.Jitter = backoff.Random
	}
	if o.Heartbeat <= 0 {
		o.Heartbeat = 2 * time.Second
	}
	if o.Stale <= 0 {
		o.Stale = 30 * time.Second
	}
	if o.Reconcile <= 0 {
		o.Reconcile = 10 * time.Second
	}
	if o.Used == nil {
		o.Used = func(string, string) bool { return false }
	}
	return o
}

// Replica is one gateway's part in the health of the backends, without a clock, a network
// or a goroutine: its methods take an event and its time, and return what to do next. A
// Prober supplies all three. One goroutine at a time may use it. The times must not
// decrease.
type Replica struct {
	options  ReplicaOptions
	fleets   map[string]*fleet // by capability
	round    uint64            // of the last Set
	queue    probeQueue        // probes that are not in flight
	inFlight int
	probes   uint64   // made so far
	released []*Probe // no longer needed, and not in flight
	changed  []*fleet // with transitions

	earlyProbes, wantedProbes *tokenbucket.Bucket // of probes before their interval is over

	changes []Change
	silent  []Key // did not answer
	reach   reach

	// The membership.
	self             *peer
	peers            map[string]*peer
	live             []*peer   // the same, in no order
	epoch            string    // of the membership
	ahead            int64     // ms by which the local clock is ahead of the store's
	started          time.Time // the first tick
	nextTick         time.Time
	lastReply        time.Time // time of the membership's last reply
	lastContact      time.Time // time of the last reply of the store or the membership
	heartbeatPending bool      // a heartbeat is in flight
	joined           bool      // the membership has replied
	isolated         bool      // the membership stopped replying, or never did
	nextReview       time.Time // time of the next review

	// The store.
	shards        [Shards]shard
	readsInFlight int  // in flight
	synced        bool // all shards were requested
	unpublished   []*endpoint
	deletions     []Key
	publishing    bool // a publish is in flight
	nextPublish   time.Time
}

// Transition is a change of one backend.
type Transition struct {
	Index  int  // of the backend in the Snapshot
	Probed bool // by this replica
}

// Change is a new snapshot of a fleet.
type Change struct {
	Snapshot    *Snapshot
	Transitions []Transition // empty if only the list of backends changed
	New         bool         // the fleet is new, and its state unknown
	ProberOnly  bool         // only the probing replica changed
}

// Work is the work to do next. The result of each part goes to the method in its comment.
type Work struct {
	Probes    []*Probe    // OnProbe
	Released  []*Probe    // no longer needed; to be closed
	Heartbeat *Heartbeat  // OnHeartbeat
	Publish   []Report    // OnPublish
	Reads     []ShardRead // OnShard
	Reach     *Probe      // OnReach; nil: no check
}

// NewReplica returns a Replica that probes nothing yet.
func NewReplica(options ReplicaOptions) *Replica {
	r := &Replica{
		options: options.withDefaults(), fleets: map[string]*fleet{}, peers: map[string]*peer{},
		earlyProbes:  tokenbucket.New(maxEarly, time.Second/maxEarly),
		wantedProbes: tokenbucket.New(maxWantedProbes, time.Second/maxWantedProbes),
	}
	r.self = &peer{id: options.ID, hash: hash(options.ID)}
	return r
}

// Step returns what is due now.
func (r *Replica) Step(now time.Time) Work {
	var w Work
	if r.tick(now) {
		w.Reach = r.checkReach(now)
		w.Heartbeat = &Heartbeat{Replica: r.options.ID, Digest: r.digest(now), Dead: r.heartbeats(deadAfter)}
	}
	w.Probes, w.Publish, w.Reads = r.dueProbes(now), r.dueReports(now), r.dueReads(now)
	r.probes += uint64(len(w.Probes))
	w.Released, r.released = r.released, nil
	r.publish()
	return w
}

// Next returns the time of the next Step if nothing else happens before. Without ok there is
// none.
func (r *Replica) Next() (at time.Time, ok bool) {
	sooner := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	if len(r.queue) > 0 && r.inFlight < r.options.MaxConcurrent {
		sooner(r.queue[0].due)
	}
	if !r.options.Shared {
		return at, ok
	}
	sooner(r.nextTick)
	if !r.joined || r.isolated {
		return at, ok
	}
	if len(r.unpublished)+len(r.deletions) > 0 && !r.publishing {
		sooner(r.nextPublish)
	}
	for n := range r.shards {
		if r.readsInFlight < maxReads && !r.shards[n].reading {
			sooner(r.shards[n].nextRead)
		}
	}
	return at, ok
}

// Changes returns the changes since its last call, in order.
func (r *Replica) Changes() []Change {
	changes := r.changes
	r.changes = nil
	return changes
}

// Stats describe a replica and its peers.
type Stats struct {
	Probes      uint64    // made so far
	Probing     int       // backends that this replica probes
	Shared      bool      // there is a membership
	Replicas    int       // live, including this one; 0: not shared, or the membership is unavailable
	Agree       int       // replicas with the same digests as this one
	LastContact time.Time // time of the last reply of the membership or the store; zero: never
	Unpublished int       // observations that wait to be published
	CutOff      bool      // this replica reaches no backend, and others do
}

// Stats returns the current Stats.
func (r *Replica) Stats() Stats {
	s := Stats{
		Shared: r.options.Shared, Probes: r.probes, Probing: len(r.queue) + r.inFlight, LastContact: r.lastContact,
		Unpublished: len(r.unpublished), CutOff: r.reach.cutOff,
	}
	if !r.joined || r.isolated {
		return s
	}
	s.Replicas = len(r.live)
	for _, p := range r.live {
		if p == r.self || p.inSync() {
			s.Agree++
		}
	}
	return s
}
