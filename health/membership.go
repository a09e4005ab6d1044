package health

import "time"

// Limits of the membership protocol, in heartbeats.
const (
	deadAfter    = 1.25 // age of the last heartbeat at which a replica counts as dead
	isolateAfter = 5    // time without a reply after which a replica counts itself as isolated
)

// reviewEvery is the interval at which an isolated replica looks up which backends have traffic.
const reviewEvery = 5 * time.Second

// graceAtStart bounds the wait for the first reply of the membership.
const graceAtStart = time.Second

// heartbeats returns the duration of n heartbeats.
func (r *Replica) heartbeats(n float64) time.Duration {
	return time.Duration(n * float64(r.options.Heartbeat))
}

// tick does what is due every half heartbeat, and reports whether a heartbeat is to be sent.
func (r *Replica) tick(now time.Time) (send bool) {
	if !r.options.Shared || now.Before(r.nextTick) {
		return false
	}
	r.nextTick = now.Add(r.jitter(r.heartbeats(0.5), 0.1))
	if r.started.IsZero() {
		r.started = now
		r.nextTick = now.Add(min(graceAtStart, r.heartbeats(0.5)))
	}
	switch expired := now.Sub(r.lastReply) > r.heartbeats(isolateAfter); {
	case r.isolated:
		r.stayIsolated(now)
	case !r.joined && now.Sub(r.started) >= graceAtStart, r.joined && expired:
		r.isolate(now)
	}
	if r.heartbeatPending {
		return false
	}
	r.heartbeatPending = true
	return true
}

// digest summarizes what this replica probes.
func (r *Replica) digest(now time.Time) Digest {
	d := r.self.expected
	if len(r.queue) > 0 {
		d.Late = max(0, now.Sub(r.queue[0].due))
	}
	return d
}

// OnHeartbeat takes the membership's reply to a heartbeat.
func (r *Replica) OnHeartbeat(now time.Time, m Members, err error) {
	r.heartbeatPending = false
	if err != nil {
		if !r.joined && !r.isolated {
			r.isolate(now)
		}
		r.publish()
		return
	}
	r.lastReply, r.lastContact = now, now
	r.setClock(now.UnixMilli() - m.Now)
	anew := !r.joined || m.Epoch != r.epoch
	if anew && r.joined {
		r.extendPeers(now)
	}
	r.epoch, r.joined = m.Epoch, true
	r.updatePeers(now, m.Members)
	switch {
	case !r.synced:
		r.resync(now, 0)
	case r.isolated:
		r.resync(now, max(spread, time.Duration(len(r.live))*spreadEach))
	case anew:
		r.republish(now)
	}
	if r.isolated {
		r.isolated = false
		r.review(now)
	}
	r.publish()
}

// setClock records by how much the local clock is ahead of the store's. Observations made
// before that was known carry local times, and are corrected.
func (r *Replica) setClock(ahead int64) {
	if !r.joined {
		for _, f := range r.fleets {
			for _, ep := range f.endpoints {
				if old := ep.observations[Primary]; old != nil {
					v := *old
					v.Since, v.Written = v.Since-ahead, v.Written-ahead
					ep.observations[Primary] = &v
				}
			}
		}
	}
	r.ahead = ahead
}

// extendPeers extends the life of peers that an emptied membership cannot list yet. A live peer sends
// its next heartbeat within half an interval, and it must count even when Redis is busy.
func (r *Replica) extendPeers(now time.Time) {
	for _, p := range r.live {
		if seen := now.Add(-r.heartbeats(0.25)); p.lastSeen.Before(seen) {
			p.lastSeen = seen
		}
	}
}

// updatePeers compares the live peers with the listed members.
func (r *Replica) updatePeers(now time.Time, members []Member) {
	var newcomers []*peer
	if r.peers[r.self.id] == nil {
		newcomers = append(newcomers, r.self)
	}
	for _, m := range members {
		if m.Age > r.heartbeats(deadAfter) && m.Replica != r.self.id {
			continue
		}
		p := r.peers[m.Replica]
		switch {
		case m.Replica == r.self.id:
			p = r.self
		case p == nil:
			p = &peer{id: m.Replica, hash: hash(m.Replica)}
			newcomers = append(newcomers, p)
		}
		p.lastSeen, p.digest, p.listed = now.Add(-m.Age), m.Digest, true
	}
	r.addPeers(now, newcomers...)
	var gone []*peer
	changed := false
	for _, p := range r.live {
		if !p.listed && p != r.self && now.Sub(p.lastSeen) > r.heartbeats(deadAfter) {
			gone = append(gone, p)
		}
		p.listed = false
		stale := p != r.self && p.digest.Late > r.options.Stale
		changed = changed || stale != p.stale
		p.stale = stale
	}
	r.removePeers(now, gone...)
	if changed {
		r.review(now)
	}
}

// isolate makes the replica independent of its peers. Observations of peers count until they
// are stale, and every backend that has traffic is probed here.
func (r *Replica) isolate(now time.Time) {
	r.isolated, r.nextReview = true, now.Add(reviewEvery)
	if r.peers[r.self.id] == nil {
		r.addPeers(now, r.self)
	}
	r.review(now)
}

// stayIsolated periodically reviews which backends have traffic, and which observations are stale.
func (r *Replica) stayIsolated(now time.Time) {
	if now.Before(r.nextReview) {
		return
	}
	r.nextReview = now.Add(reviewEvery)
	r.review(now)
}

// review decides anew for every backend whether this replica probes it, and what its state is.
func (r *Replica) review(now time.Time) {
	for _, f := range r.fleets {
		for _, ep := range f.endpoints {
			r.assign(now, ep)
			r.updateState(now, ep, false)
		}
	}
}
