package health

import (
	"slices"
	"time"
)

// ReplicaOptions are what a Replica may be given. The zero value works.
type ReplicaOptions struct {
	// MaxConcurrent bounds the probes under way at one time; default 64.
	MaxConcurrent int
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
	given    []*Probe // given up, and not under way
	stirred  []*fleet // with news
	changes  []Change
}

// News is what changed about one backend.
type News struct {
	Index  int  // of the backend in the Snapshot
	Probed bool // this replica found it out itself
}

// Change is a fleet's new snapshot.
type Change struct {
	Snapshot *Snapshot
	News     []News // the transitions; empty if the fleet has new members only
	New      bool   // the fleet is new, and nothing is known yet
}

// Work is what is to be done next.
type Work struct {
	Probes []*Probe // to be made; each is to be answered by Probed
	Given  []*Probe // that nobody needs any more
}

// NewReplica makes a Replica that watches nothing yet.
func NewReplica(options ReplicaOptions) *Replica {
	if options.MaxConcurrent <= 0 {
		options.MaxConcurrent = 64
	}
	return &Replica{options: options, fleets: map[string]*fleet{}}
}

// Step returns what is to be done now.
func (r *Replica) Step(now time.Time) Work {
	w := Work{Probes: r.takeDue(now), Given: r.given}
	r.given = nil
	return w
}

// Next returns when Step is due again if nothing else happens before; never if ok
// is false.
func (r *Replica) Next() (at time.Time, ok bool) {
	if len(r.queue) == 0 || r.underWay >= r.options.MaxConcurrent {
		return time.Time{}, false
	}
	return r.queue[0].due, true
}

// Changes returns what changed since it was asked last, in order.
func (r *Replica) Changes() []Change {
	changes := r.changes
	r.changes = nil
	return changes
}

// assign starts or stops probing t.
func (r *Replica) assign(now time.Time, t *target) {
	if t.probe == nil {
		r.schedule(t, now)
	}
}

// learn takes what a probe of this replica found out.
func (r *Replica) learn(now time.Time, p *Probe, result Result) {
	b := *p.target.backend()
	if b.State != p.judge.state {
		b.State, b.Since = p.judge.state, now
	}
	b.Refused, b.Dialect = result.Refused && b.State == Down, result.Dialect
	if b.State != p.target.backend().State || b.Dialect != p.target.backend().Dialect || b.Refused != p.target.backend().Refused {
		b.Reason = result.Reason
		r.note(p.target, b, true)
	}
}

// note records that t is now as b says.
func (r *Replica) note(t *target, b Backend, probed bool) {
	f := t.fleet
	if f.next == nil {
		f.next = slices.Clone(f.snap.Backends)
		r.stirred = append(r.stirred, f)
	}
	f.next[t.index] = b
	f.news = append(f.news, News{Index: t.index, Probed: probed})
}

// publish makes one snapshot of each fleet with news.
func (r *Replica) publish() {
	for _, f := range r.stirred {
		f.publish(r)
	}
	clear(r.stirred)
	r.stirred = r.stirred[:0]
}

func (f *fleet) publish(r *Replica) {
	if f.next == nil {
		return
	}
	f.snap = NewSnapshot(f.spec.Capability, f.next)
	r.changes = append(r.changes, Change{Snapshot: f.snap, News: f.news})
	f.next, f.news = nil, nil
}
