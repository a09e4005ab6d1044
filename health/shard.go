package health

import "time"

// Limits of shard reads.
const (
	maxReads        = 4
	minReadInterval = 200 * time.Millisecond // between two reads of a shard
	readBackoff     = 2 * time.Second        // after a failed read
	spread          = 2 * time.Second        // over which the reads of all shards are spread
	spreadEach      = 50 * time.Millisecond  // per live replica, when all shards must be read in full
	maxBuffered     = 64                     // events of a shard that are buffered during its read

	renewAfter = time.Hour // age at which an observation is published again
	// garbageAfter is the age at which the observation of an unknown backend is deleted.
	garbageAfter = 3 * time.Hour
)

// shard is the local knowledge of one shard of the store.
type shard struct {
	fleets       map[*fleet]struct{}
	version      uint64    // known; 0: none
	latest       uint64    // latest version known to exist
	awaitsEvents bool      // for events up to latest, which may be on their way
	waits        bool      // the event of latest waits in the store; a read of the version sends it
	nextRead     time.Time // time of the next read
	lastRead     time.Time // time of the last read
	reading      bool
	full         bool    // the read includes the entries
	stale        bool    // an event was missed during the read
	buffered     []Event // events received during the read, which may follow its result
}

// ShardRead requests a shard.
type ShardRead struct {
	Shard int
	Known uint64 // version that is known already
	Full  bool   // with its entries; else only its version is read
}

// dueReads returns the shards to read now.
func (r *Replica) dueReads(now time.Time) []ShardRead {
	var reads []ShardRead
	if !r.joined || r.isolated {
		return nil
	}
	for n := range r.shards {
		p := &r.shards[n]
		if r.readsInFlight >= maxReads {
			break
		}
		if p.reading || now.Before(p.nextRead) {
			continue
		}
		missed := p.version < p.latest
		if p.awaitsEvents && !missed && !p.stale {
			p.awaitsEvents, p.nextRead = false, now.Add(r.jitter(r.options.Reconcile, 0.2))
			continue
		}
		p.full = p.version == 0 || missed && !p.waits
		p.reading, p.awaitsEvents, p.stale, p.lastRead = true, false, false, now
		r.readsInFlight++
		reads = append(reads, ShardRead{Shard: n, Known: p.version, Full: p.full})
	}
	return reads
}

// readSoon schedules the next read of a shard as early as allowed.
func (r *Replica) readSoon(n int) {
	p := &r.shards[n]
	p.stale = true
	if at := p.lastRead.Add(minReadInterval); at.Before(p.nextRead) {
		p.nextRead = at
	}
}

// expect takes a shard whose notice of a change waits in the store. If no event arrives until the notice is due, the
// shard's version is read, so that the store sends it.
func (r *Replica) expect(now time.Time, w Waiting) {
	if w.Shard < 0 || w.Shard >= Shards {
		return
	}
	p := &r.shards[w.Shard]
	if missed := p.version < p.latest && !p.waits; missed || p.version == 0 || p.version > w.Version {
		return
	}
	p.latest, p.awaitsEvents, p.waits = max(p.latest, w.Version+1), true, true
	p.nextRead = now.Add(w.Wait + r.options.Jitter(w.Wait/4+1))
}

// resync schedules full reads of all shards, spread over some time.
func (r *Replica) resync(now time.Time, over time.Duration) {
	r.synced = true
	for n := range r.shards {
		p := &r.shards[n]
		p.version, p.stale, p.nextRead = 0, true, now.Add(r.options.Jitter(over))
	}
}

// checkVersions schedules a read of all shards' versions, spread over some time.
func (r *Replica) checkVersions(now time.Time, over time.Duration) {
	for n := range r.shards {
		p := &r.shards[n]
		p.stale = true
		if at := now.Add(r.options.Jitter(over)); at.Before(p.nextRead) {
			p.nextRead = at
		}
	}
}

// republish publishes this replica's observations to a store that lost its content. It first
// waits until all replicas watch again: a replica that receives a shard's first event need not
// read the shard.
func (r *Replica) republish(now time.Time) {
	for n := range r.shards {
		r.shards[n].markUnpublished()
		r.repair(now, &r.shards[n])
	}
	r.nextPublish = now.Add(publishAfterLoss)
	r.checkVersions(now, spread)
}

// markUnpublished marks all observations of a shard as missing in the store.
func (p *shard) markUnpublished() {
	for f := range p.fleets {
		for _, ep := range f.endpoints {
			ep.published = [2]bool{}
		}
	}
}

// OnShard takes the result of a read that Step requested.
func (r *Replica) OnShard(now time.Time, read ShardRead, got Shard, err error) {
	p := &r.shards[read.Shard]
	buffered := p.buffered
	p.reading, p.full, p.buffered = false, false, nil
	r.readsInFlight--
	if err != nil {
		p.nextRead = now.Add(r.jitter(readBackoff, 0.5))
		r.repair(now, p)
		r.publish()
		return
	}
	r.lastContact = now
	p.nextRead = now.Add(r.jitter(r.options.Reconcile, 0.2))
	if p.stale {
		p.nextRead = p.lastRead.Add(minReadInterval)
	}
	waiting := Waiting{read.Shard, got.Version, got.Wait}
	if !read.Full && got.Version != 0 {
		r.onVersion(now, read, waiting)
		return
	}
	if p.version != read.Known && got.Version < p.version { // it was recreated meanwhile
		p.nextRead = p.lastRead.Add(minReadInterval)
		return
	}
	if got.Version == 0 && read.Known != 0 {
		r.nextPublish = now.Add(publishAfterLoss)
	}
	p.version, p.latest, p.waits = got.Version, got.Version, false
	p.markUnpublished()
	for _, e := range got.Entries {
		r.reconcile(now, e, got.Now)
	}
	for _, n := range buffered {
		r.onShardEvent(now, n)
	}
	if got.Wait > 0 {
		r.expect(now, waiting)
	}
	r.repair(now, p)
	r.publish()
}

// onVersion takes the version of a shard without its entries. While many replicas publish,
// the store is mostly ahead of the received events. A full read would then be wasteful: the missing
// events are mostly on their way.
func (r *Replica) onVersion(now time.Time, read ShardRead, got Waiting) {
	p := &r.shards[read.Shard]
	switch {
	case got.Version < read.Known: // the store has lost content
		r.invalidate(read.Shard)
	case got.Wait > 0:
		r.expect(now, got)
	case got.Version > p.version:
		p.latest, p.awaitsEvents, p.waits = got.Version, true, false
		p.nextRead = p.lastRead.Add(minReadInterval)
	case got.Version == p.version: // nothing waits, so what has not arrived is lost
		if p.waits {
			p.latest, p.waits = p.version, false
		}
		r.publishLost(p)
	}
}

// publishLost publishes observations again whose notices have waited in the store, and were lost there.
func (r *Replica) publishLost(p *shard) {
	for f := range p.fleets {
		for _, ep := range f.endpoints {
			for role, lost := range ep.waits {
				if lost && ep.observedHere(Role(role)) {
					r.enqueue(ep, Role(role))
				}
			}
			ep.waits = [2]bool{}
		}
	}
}

// reconcile takes an entry of a shard that was read.
func (r *Replica) reconcile(now time.Time, e Entry, boardNow int64) {
	ep := r.find(e.Key)
	age := time.Duration(boardNow-e.Observation.Written) * time.Millisecond
	switch {
	case ep == nil:
		if age > garbageAfter && r.wouldOwn(e.Key) {
			r.enqueueDeletion(e.Key)
		}
	case !ep.observedHere(e.Role):
		r.accept(now, ep, e.Role, e.Observation)
	case e.Observation.same(ep.observations[e.Role]):
		ep.conflict, ep.waits[e.Role] = false, false
		ep.published[e.Role] = age < renewAfter
	default:
		ep.conflict = true
	}
}

// repair publishes local observations that the shard lacks, and starts probes that had to
// wait for the shard.
func (r *Replica) repair(now time.Time, p *shard) {
	for f := range p.fleets {
		for _, ep := range f.endpoints {
			if !ep.shardRead {
				ep.shardRead = true
				r.assign(now, ep)
			}
			if ep.probe != nil && ep.observedHere(ep.probe.role) && !ep.published[ep.probe.role] {
				r.enqueue(ep, ep.probe.role)
			}
		}
	}
}

// OnEvent takes a change of the store.
func (r *Replica) OnEvent(now time.Time, n Event) {
	switch {
	case n.Subscribed:
		if r.synced {
			r.checkVersions(now, spread)
		}
	case n.Left != "":
		if p := r.peers[n.Left]; p != nil && p != r.self {
			r.removePeers(now, p)
		}
	case n.Shard >= 0 && n.Shard < Shards:
		r.onShardEvent(now, n)
	}
	r.publish()
}

// onShardEvent takes a change of a shard. It applies only to the version before it.
func (r *Replica) onShardEvent(now time.Time, n Event) {
	p := &r.shards[n.Shard]
	switch {
	case n.Previous == 0:
		p.markUnpublished()
		p.latest, p.buffered = 0, nil
	case n.Version <= p.version:
		return
	case n.Previous != p.version && p.full && len(p.buffered) < maxBuffered:
		p.buffered = append(p.buffered, n)
		return
	case n.Previous != p.version:
		p.latest, p.waits = n.Version, false
		r.readSoon(n.Shard)
		return
	}
	p.version = n.Version
	for _, e := range n.Entries {
		r.onEntry(now, e, n.Shard)
	}
	if n.Previous == 0 {
		r.repair(now, p)
	}
}

// onEntry takes an entry of an event. A backend that other replicas have removed may be
// configured here for a little longer, or again: it is kept, and what is observed here is published again.
func (r *Replica) onEntry(now time.Time, e Entry, n int) {
	ep := r.find(e.Key)
	switch {
	case ep == nil:
	case e.Observation == nil:
		if ep.observedHere(e.Role) {
			ep.published[e.Role] = false
			r.enqueue(ep, e.Role)
		}
	case !ep.observedHere(e.Role):
		r.accept(now, ep, e.Role, e.Observation)
	case e.Observation.same(ep.observations[e.Role]):
		ep.conflict, ep.published[e.Role], ep.waits[e.Role] = false, true, false
	default: // another replica claims the same role; the shard will show which one wrote last
		ep.conflict = true
		r.invalidate(n)
	}
}

// invalidate schedules a full read of a shard.
func (r *Replica) invalidate(n int) {
	r.shards[n].version = 0
	r.readSoon(n)
}

// yield is called before this replica stops probing ep in its role. Observations of other replicas that
// were ignored meanwhile are read again, and so are those that an unpublished observation replaced.
func (r *Replica) yield(ep *endpoint) {
	if p := ep.probe; ep.conflict || p != nil && p.observed && !ep.published[p.role] {
		ep.conflict = false
		r.invalidate(ep.fleet.shard)
	}
}

// accept takes another replica's observation.
func (r *Replica) accept(now time.Time, ep *endpoint, slot Role, v *Observation) {
	if old := ep.observations[slot]; old == nil || *old != *v {
		if v.State == Down {
			r.heard(ep, v.Reason)
		}
		r.setObservation(ep, slot, v)
	}
	ep.published[slot] = true
	r.assign(now, ep)
	r.updateState(now, ep, false)
}

// observedHere reports whether this replica owns the observation in a role, and has made it.
func (ep *endpoint) observedHere(slot Role) bool {
	return ep.probe != nil && ep.probe.role == slot && ep.probe.observed
}

// wouldOwn reports whether this replica would be the primary of a backend.
func (r *Replica) wouldOwn(k Key) bool {
	ep := endpoint{hash: hash(k.Capability + " " + k.Addr)}
	for _, p := range r.live {
		ep.consider(p)
	}
	return ep.primary == r.self
}
