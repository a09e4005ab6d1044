package health

import "time"

// ReplicaOptions are what a Replica may be given. The zero value works, and is a
// replica that shares nothing.
type ReplicaOptions struct {
	// MaxConcurrent bounds the probes under way at one time; default 64.
	MaxConcurrent int

	// Shared says that there are a Roll and a Board; the rest is for then.
	Shared bool
	// ID is this replica's on the roll: unique, without spaces.
	ID string
	// Heartbeat is the time in which a replica beats twice; default 2 s.
	Heartbeat time.Duration
	// Stale is the age at which what is known of a backend becomes Unknown; default 30 s.
	Stale time.Duration
	// Reconcile is the time in which each page of the board is looked at; default 10 s.
	Reconcile time.Duration
	// Used says whether calls went to a backend lately: such a backend is probed here
	// while the roll is away. Default none.
	Used func(capability, addr string) bool
}

func (o ReplicaOptions) withDefaults() ReplicaOptions {
	if o.MaxConcurrent <= 0 {
		o.MaxConcurrent = 64
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

// Replica is one gateway's part in knowing who is alive, without a clock, a network
// or a goroutine: it is told what happened and when, and says what to do next. A
// Prober gives it all three. It is used by one goroutine at a time; times given to
// it never go back.
type Replica struct {
	options  ReplicaOptions
	fleets   map[string]*fleet // by capability
	round    uint64            // of the last Set
	queue    probeQueue        // probes that are not under way
	underWay int
	probes   uint64   // made so far
	given    []*Probe // given up, and not under way
	stirred  []*fleet // with news
	changes  []Change

	// The roll.
	self     *peer
	peers    map[string]*peer
	alive    []*peer   // the same, in no order
	epoch    string    // of the roll
	ahead    int64     // ms by which the local clock is ahead of the board's
	started  time.Time // the first tick
	nextTick time.Time
	answered time.Time // when the roll answered last
	looked   time.Time // when anything of the board or the roll was last seen
	beating  bool      // a beat is under way
	met      bool      // the roll has answered
	alone    bool      // it does not any more, or never did
	nextUse  time.Time // when to look again what is used

	// The board.
	pages    [Pages]page
	reads    int  // under way
	read     bool // all pages were asked for
	toPost   []*target
	gone     []Key
	posting  bool // a post is under way
	nextPost time.Time
}

// News is what changed about one backend.
type News struct {
	Index  int  // of the backend in the Snapshot
	Probed bool // this replica is the one that probes it
}

// Change is a fleet's new snapshot.
type Change struct {
	Snapshot *Snapshot
	News     []News // the transitions; empty if the fleet has other members only
	New      bool   // the fleet is new, and nothing is known yet
	Quiet    bool   // nothing changed but who probes
}

// Work is what is to be done next. Each part of it is to be answered by the method
// that is named.
type Work struct {
	Probes []*Probe   // to be made: Probed
	Given  []*Probe   // that nobody needs any more
	Beat   *Beat      // Beaten
	Post   []Report   // Posted
	Reads  []PageRead // Read
}

// NewReplica makes a Replica that watches nothing yet.
func NewReplica(options ReplicaOptions) *Replica {
	r := &Replica{options: options.withDefaults(), fleets: map[string]*fleet{}, peers: map[string]*peer{}}
	r.self = &peer{id: options.ID, hash: hash(options.ID)}
	return r
}

// Step returns what is to be done now.
func (r *Replica) Step(now time.Time) Work {
	var w Work
	if r.tick(now) {
		w.Beat = &Beat{Replica: r.options.ID, Digest: r.digest(now), Dead: r.heartbeats(deadAfter)}
	}
	w.Probes, w.Post, w.Reads = r.takeDue(now), r.takePost(now), r.takeReads(now)
	r.probes += uint64(len(w.Probes))
	w.Given, r.given = r.given, nil
	r.publish()
	return w
}

// Next returns when Step is due again if nothing else happens before; never if ok
// is false.
func (r *Replica) Next() (at time.Time, ok bool) {
	sooner := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	if len(r.queue) > 0 && r.underWay < r.options.MaxConcurrent {
		sooner(r.queue[0].due)
	}
	if !r.options.Shared {
		return at, ok
	}
	sooner(r.nextTick)
	if !r.met || r.alone {
		return at, ok
	}
	if len(r.toPost)+len(r.gone) > 0 && !r.posting {
		sooner(r.nextPost)
	}
	for n := range r.pages {
		if r.reads < readsAtOnce && !r.pages[n].reading {
			sooner(r.pages[n].next)
		}
	}
	return at, ok
}

// Changes returns what changed since it was asked last, in order.
func (r *Replica) Changes() []Change {
	changes := r.changes
	r.changes = nil
	return changes
}

// Stats say how a replica and its neighbours are doing.
type Stats struct {
	Probes   uint64    // made so far
	Probing  int       // backends that this replica probes
	Shared   bool      // there is a roll
	Replicas int       // on the roll, this one included; 0: not shared, or the roll is away
	Agree    int       // of them, those whose digest says what is known here
	Looked   time.Time // when the roll or the board was last seen; zero: never
	Unposted int       // votes that wait to be posted
}

// Stats returns them as of now.
func (r *Replica) Stats() Stats {
	s := Stats{Shared: r.options.Shared, Probes: r.probes, Probing: len(r.queue) + r.underWay, Looked: r.looked, Unposted: len(r.toPost)}
	if !r.met || r.alone {
		return s
	}
	s.Replicas = len(r.alive)
	for _, p := range r.alive {
		if p == r.self || p.agrees() {
			s.Agree++
		}
	}
	return s
}
