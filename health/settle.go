package health

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// role says whether this replica probes t, and in which slot its vote goes.
func (r *Replica) role(t *target) (Slot, bool) {
	switch {
	case !r.options.Shared:
		return First, true
	case !r.met && !r.alone:
		return First, false // the roll is about to answer
	case r.alone:
		return First, t.votes[First] == nil || t.orphan || r.met && t.first == r.self || r.options.Used(t.fleet.spec.Capability, t.addr())
	case t.first == r.self:
		return First, t.looked // or the board may be about to say what is known
	case t.second == r.self:
		return Second, t.votes[First] != nil && t.votes[First].State == Down
	default:
		return First, false
	}
}

// assign starts or stops probing t, as its role says.
func (r *Replica) assign(now time.Time, t *target) {
	slot, probe := r.role(t)
	if !probe {
		r.giveUp(t)
		r.concede(t)
		t.orphan = false
		return
	}
	t.orphan = r.alone && (t.orphan || t.votes[First] == nil)
	p := t.probe
	if p != nil && p.slot == slot && (slot == First || p.episode == t.votes[First].Episode) {
		return
	}
	if p == nil {
		known, due := r.takeOver(now, t)
		p = r.schedule(t, due)
		p.judge.state = known
	}
	r.concede(t)
	p.slot, p.voted = slot, false
	if slot == Second {
		p.episode, p.judge.state, p.judge.streak = t.votes[First].Episode, Unknown, 0
		r.hurry(now, p)
	}
}

// takeOver says what is known when this replica begins to probe t, and when to
// begin: there is no hurry if it was somebody else's turn until now, and no doubt
// about what he found.
func (r *Replica) takeOver(now time.Time, t *target) (State, time.Time) {
	v := t.votes[First]
	if v == nil || !r.options.Shared {
		return Unknown, now
	}
	return v.State, now.Add(time.Duration(rand.Float64() * float64(r.heartbeats(0.25))))
}

// learn takes what a probe of this replica found out.
func (r *Replica) learn(now time.Time, p *Probe, result Result) {
	t := p.target
	if result.Dialect == call.Auto && !result.OK && t.votes[First] != nil {
		result.Dialect = call.Dialect(t.votes[First].Dialect) // what it spoke when it spoke
	}
	state, old := p.judge.state, t.votes[p.slot]
	v := &Vote{
		State: state, Refused: result.Refused && state == Down, Dialect: uint8(result.Dialect),
		Since: r.theirs(now), Written: r.theirs(now), By: r.options.ID, Reason: result.Reason,
	}
	switch {
	case p.slot == Second:
		v.Episode = p.episode
	case old != nil && old.State == state:
		v.Episode, v.Since = old.Episode, old.Since
	default:
		v.Episode = rand.Uint32()
	}
	p.voted = true
	if old == nil || !old.same(v) {
		r.vote(t, p.slot, v)
		t.posted[p.slot] = false
	}
	if !t.posted[p.slot] {
		r.unposted(t, p.slot)
	}
	r.settle(now, t, true)
}

// vote makes v what is known in one slot.
func (r *Replica) vote(t *target, slot Slot, v *Vote) {
	if slot == First {
		t.first.uncount(t.contribution())
		defer func() { t.first.count(t.contribution()) }()
	}
	t.votes[slot] = v
}

// theirs turns a local time into the board's, in ms since 1970; ours does the reverse.
func (r *Replica) theirs(t time.Time) int64 { return t.UnixMilli() - r.ahead }
func (r *Replica) ours(ms int64) time.Time  { return time.UnixMilli(ms + r.ahead) }

// confirms says whether t is down only if a second replica says so too.
func (r *Replica) confirms(t *target) bool {
	if r.alone && t.probe != nil {
		return false
	}
	return t.second != nil && !t.second.stale
}

// outdated says whether nobody is known to look at t.
func (r *Replica) outdated(now time.Time, t *target) bool {
	switch {
	case !r.options.Shared || t.probe != nil && t.probe.slot == First:
		return false
	case r.alone:
		return now.Sub(r.answered) > r.options.Stale
	default:
		return t.first != nil && t.first.stale
	}
}

// settle makes of the votes on t what the snapshot says. Probed says that this
// replica has just probed it.
func (r *Replica) settle(now time.Time, t *target, probed bool) {
	old := t.backend()
	b := *old
	state, v := resolve(t.votes[First], t.votes[Second], r.confirms(t))
	since := now
	if v != nil {
		b.Dialect, b.Refused = call.Dialect(v.Dialect), v.Refused && state == Down
		if !probed && state == v.State {
			since = r.ours(v.Since)
		}
	}
	if b.Refused && v == t.votes[First] && r.confirms(t) {
		b.Refused = t.votes[Second].Refused
	}
	reason := old.Reason
	switch {
	case r.outdated(now, t):
		state, b.Refused, reason = Unknown, false, "nobody is known to have checked lately"
	case v != nil && state != v.State:
		reason = "down, says " + v.By + ", and nobody else yet: " + v.Reason
	case v != nil:
		reason = v.Reason
	}
	b.By = r.prober(t, v)
	if b.State != state {
		b.State, b.Since = state, since
	}
	switch {
	case b.State != old.State || b.Dialect != old.Dialect || b.Refused != old.Refused:
		b.Reason = reason
		r.note(t, b, true)
	case b.By != old.By:
		r.note(t, b, false)
	}
}

// prober names who probes t, or whose vote v decides.
func (r *Replica) prober(t *target, v *Vote) string {
	switch {
	case t.probe != nil && t.probe.slot == First:
		return r.options.ID
	case v != nil && v == t.votes[Second] && t.second != nil:
		return t.second.id
	case t.first != nil && !r.alone:
		return t.first.id
	default:
		return ""
	}
}

// note records that t is now as b says; transition: in more than who probes it.
func (r *Replica) note(t *target, b Backend, transition bool) {
	f := t.fleet
	if f.next == nil {
		f.next = slices.Clone(f.snap.Backends)
		r.stirred = append(r.stirred, f)
	}
	f.next[t.index] = b
	if transition {
		probed := t.probe != nil && t.probe.slot == First
		f.news = append(f.news, News{Index: int(t.index), Probed: probed})
	}
}

// publish makes one snapshot of each fleet with something new.
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
	r.changes = append(r.changes, Change{Snapshot: f.snap, News: f.news, Quiet: len(f.news) == 0})
	f.next, f.news = nil, nil
}
