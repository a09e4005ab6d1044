package health

import (
	"fmt"
	"slices"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// reasonInterval is the least time between two published reasons of a backend that stays Down.
const reasonInterval = 30 * time.Second

// role reports whether this replica probes ep, and in which role.
func (r *Replica) role(ep *endpoint) (Role, bool) {
	if role, probe := r.duty(ep); probe || !ep.wanted {
		return role, probe
	}
	return OnDemand, true
}

// duty is role without demand.
func (r *Replica) duty(ep *endpoint) (Role, bool) {
	switch {
	case !r.options.Shared:
		return Primary, true
	case !r.joined && !r.isolated:
		return Primary, false // the membership is about to reply
	case r.isolated:
		mine := ep.observations[Primary] == nil || ep.orphan || ep.wanted || r.joined && ep.primary == r.self
		return Primary, mine || r.options.Used(ep.fleet.spec.Capability, ep.addr())
	case ep.primary == r.self:
		return Primary, ep.shardRead // the store may be about to return its state
	case ep.secondary == r.self:
		v := ep.observations[Primary] // not its own, of when it was the primary
		return Secondary, v != nil && v.State == Down && v.By != r.self.id
	default:
		return Primary, false
	}
}

// assign starts or stops probing ep, according to its role.
func (r *Replica) assign(now time.Time, ep *endpoint) {
	slot, probe := r.role(ep)
	if !probe {
		r.yield(ep)
		r.unschedule(ep)
		ep.orphan = false
		return
	}
	ep.orphan = r.isolated && (ep.orphan || ep.wanted || ep.observations[Primary] == nil)
	if slot != OnDemand {
		ep.wanted, ep.reached = false, nil
	}
	p := ep.probe
	if p != nil && p.role == slot && (slot != Secondary || p.episode == ep.observations[Primary].Episode) {
		return
	}
	if p == nil {
		known, due := Unknown, now
		if slot == Primary {
			known, due = r.takeOver(now, ep)
		}
		p = r.schedule(ep, due)
		p.threshold.state = known
	}
	r.yield(ep)
	if p.role == OnDemand && slot == Primary {
		r.probeAt(p, now)
	}
	p.role, p.observed = slot, false
	if slot == Secondary {
		p.episode, p.threshold.state, p.threshold.streak = ep.observations[Primary].Episode, Unknown, 0
		r.probeAt(p, now)
	}
}

// takeOver returns the initial state and the time of the first probe when this replica begins to
// probe ep. The first probe may wait if another replica probed ep until now.
func (r *Replica) takeOver(now time.Time, ep *endpoint) (State, time.Time) {
	v := ep.observations[Primary]
	if v == nil || !r.options.Shared {
		return Unknown, now
	}
	state, _ := resolve(v, ep.observations[Secondary], v.By != r.self.id)
	return state, now.Add(r.options.Jitter(r.heartbeats(0.25)))
}

// onResult takes the result of a probe by this replica.
func (r *Replica) onResult(now time.Time, p *Probe, result Result) {
	ep := p.endpoint
	if p.role == OnDemand {
		r.onDemand(now, p, result)
		return
	}
	if result.Dialect == call.Auto && !result.OK && ep.observations[Primary] != nil {
		result.Dialect = call.Dialect(ep.observations[Primary].Dialect) // the dialect of its last reply
	}
	state, old := p.threshold.state, ep.observations[p.role]
	v := &Observation{
		State: state, Refused: result.Refused && state == Down, Dialect: uint8(result.Dialect),
		Since: r.storeTime(now), Written: r.storeTime(now), By: r.options.ID, Reason: result.Reason,
	}
	switch {
	case p.threshold.recovering():
		v.Reason = fmt.Sprintf(recovering+"%d of %d good probes", p.threshold.streak, p.threshold.rise)
	case !result.OK && state == Up && old != nil:
		v.Reason = old.Reason
	}
	switch {
	case p.role == Secondary:
		v.Episode = p.episode
	case old != nil && old.State == state:
		v.Episode, v.Since = old.Episode, old.Since
	default:
		v.Episode = uint32(r.options.Jitter(1 << 32))
	}
	p.observed = true
	if old == nil || !old.same(v) {
		ep.published[p.role] = false
	}
	r.setObservation(ep, p.role, v)
	if !ep.published[p.role] {
		r.enqueue(ep, p.role)
	}
	r.updateState(now, ep, true)
}

// setObservation stores v as the observation in a role.
func (r *Replica) setObservation(ep *endpoint, slot Role, v *Observation) {
	if slot == Primary {
		ep.primary.uncount(ep.contribution())
		defer func() { ep.primary.count(ep.contribution()) }()
	}
	ep.observations[slot] = v
}

// storeTime converts a local time to the store's clock, in ms since 1970.
func (r *Replica) storeTime(t time.Time) int64 { return t.UnixMilli() - r.ahead }

// localTime converts ms of the store's clock to a local time.
func (r *Replica) localTime(ms int64) time.Time { return time.UnixMilli(ms + r.ahead) }

// needsConfirmation reports whether Down needs the confirmation of a second replica. A replica that knows of no other
// one, as the membership is unavailable, believes its own observation.
func (r *Replica) needsConfirmation(ep *endpoint) bool {
	if r.isolated || !r.joined {
		return !ep.observedHere(Primary)
	}
	return ep.secondary != nil && !ep.secondary.stale
}

// unobserved reports whether no replica is known to probe ep.
func (r *Replica) unobserved(now time.Time, ep *endpoint) bool {
	switch {
	case !r.options.Shared || ep.probe != nil && ep.probe.role == Primary:
		return false
	case r.isolated:
		return now.Sub(r.lastReply) > r.options.Stale
	default:
		return ep.primary != nil && ep.primary.stale
	}
}

// updateState derives ep's state in the snapshot from its observations. The time of a change is now if
// this replica has just probed ep.
func (r *Replica) updateState(now time.Time, ep *endpoint, probed bool) {
	old := ep.backend()
	b := *old
	state, v := resolve(ep.observations[Primary], ep.observations[Secondary], r.needsConfirmation(ep))
	since := now
	if v != nil {
		b.Dialect, b.Refused = call.Dialect(v.Dialect), v.Refused && state == Down
		if !probed && state == v.State {
			since = r.localTime(v.Since)
		}
	}
	if b.Refused && v == ep.observations[Primary] && r.needsConfirmation(ep) {
		b.Refused = ep.observations[Secondary].Refused
	}
	reason := old.Reason
	switch {
	case r.unobserved(now, ep):
		state, b.Refused, reason = Unknown, false, "no replica is known to have checked lately"
	case v != nil && state != v.State:
		reason = "down according to " + v.By + ", which no other replica has confirmed: " + v.Reason
	case v != nil:
		reason = v.Reason
	}
	switch {
	case state == Up && ep.wanted:
		r.endDemand(now, ep)
	case state != Up && ep.reached != nil:
		state, b.Dialect, b.Refused, reason = Up, call.Dialect(ep.reached.Dialect), false, ep.reached.Reason
	}
	b.By = r.probedBy(ep, v)
	if b.State != state {
		b.State, b.Since = state, since
	}
	b.Reason = reason
	switch {
	case b.State != old.State || b.Dialect != old.Dialect || b.Absent() != old.Absent() || b.Refused != old.Refused,
		b.Recovering() != old.Recovering(), b.WrongService() != old.WrongService():
		r.stage(ep, b, true)
	case b.By != old.By:
		b.Reason = old.Reason
		r.stage(ep, b, false)
	case b.State == Down && b.Reason != old.Reason && !(probed && now.Before(ep.nextReason)):
		ep.nextReason = now.Add(reasonInterval)
		r.stage(ep, b, false)
		if ep.observedHere(Primary) {
			ep.published[Primary] = false
			r.enqueue(ep, Primary)
		}
	}
}

// probedBy returns the replica that probes ep, or whose observation v decides.
func (r *Replica) probedBy(ep *endpoint, v *Observation) string {
	switch {
	case ep.probe != nil && ep.probe.role == Primary:
		return r.options.ID
	case v != nil && v == ep.observations[Secondary] && ep.secondary != nil:
		return ep.secondary.id
	case ep.primary != nil && !r.isolated:
		return ep.primary.id
	default:
		return ""
	}
}

// stage stages b as the next state of ep. A change that is no transition concerns only the
// probing replica.
func (r *Replica) stage(ep *endpoint, b Backend, transition bool) {
	f := ep.fleet
	if f.next == nil {
		f.next = slices.Clone(f.snap.Backends)
		r.changed = append(r.changed, f)
	}
	f.next[ep.index] = b
	if transition {
		probed := ep.probe != nil && ep.probe.role == Primary
		f.transitions = append(f.transitions, Transition{Index: int(ep.index), Probed: probed})
	}
}

// publish makes one snapshot of each changed fleet.
func (r *Replica) publish() {
	for _, f := range r.changed {
		f.publish(r)
	}
	clear(r.changed)
	r.changed = r.changed[:0]
}

// publish replaces the fleet's snapshot by the staged one.
func (f *fleet) publish(r *Replica) {
	if f.next == nil {
		return
	}
	f.snap = NewSnapshot(f.spec.Capability, f.next)
	r.changes = append(r.changes, Change{
		Snapshot: f.snap, Transitions: f.transitions, ProberOnly: len(f.transitions) == 0,
	})
	f.next, f.transitions = nil, nil
}
