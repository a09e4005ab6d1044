package health

import "time"

// How a replica judges the roll, in heartbeats.
const (
	deadAfter  = 1.25 // a replica is dead when its last beat is older
	lapseAfter = 5    // without an answer, a replica goes on alone
)

// usedEvery is how often a replica that is alone looks which backends it uses.
const usedEvery = 5 * time.Second

// graceAtStart bounds the wait for the first answer of the roll.
const graceAtStart = time.Second

func (r *Replica) heartbeats(n float64) time.Duration {
	return time.Duration(n * float64(r.options.Heartbeat))
}

// tick does what is due twice in a heartbeat, and says if a beat is.
func (r *Replica) tick(now time.Time) (beat bool) {
	if !r.options.Shared || now.Before(r.nextTick) {
		return false
	}
	r.nextTick = now.Add(vary(r.heartbeats(0.5), 0.1))
	if r.started.IsZero() {
		r.started = now
		r.nextTick = now.Add(min(graceAtStart, r.heartbeats(0.5)))
	}
	switch lapsed := now.Sub(r.answered) > r.heartbeats(lapseAfter); {
	case r.alone:
		r.stayAlone(now)
	case !r.met && now.Sub(r.started) >= graceAtStart, r.met && lapsed:
		r.goOnAlone(now)
	}
	if r.beating {
		return false
	}
	r.beating = true
	return true
}

// digest sums up what this replica probes.
func (r *Replica) digest(now time.Time) Digest {
	d := r.self.view
	if len(r.queue) > 0 {
		d.Late = max(0, now.Sub(r.queue[0].due))
	}
	return d
}

// Beaten takes the roll's answer to a beat.
func (r *Replica) Beaten(now time.Time, m Members, err error) {
	r.beating = false
	if err != nil {
		if !r.met && !r.alone {
			r.goOnAlone(now)
		}
		r.publish()
		return
	}
	r.answered, r.looked = now, now
	r.setClock(now.UnixMilli() - m.Now)
	anew := !r.met || m.Epoch != r.epoch
	if anew && r.met {
		r.remember(now)
	}
	r.epoch, r.met = m.Epoch, true
	r.muster(now, m.Members)
	switch {
	case !r.read:
		r.reread(now, 0)
	case r.alone:
		r.reread(now, max(spread, time.Duration(len(r.alive))*spreadEach))
	case anew:
		r.writeAgain(now)
	}
	if r.alone {
		r.alone = false
		r.review(now)
	}
	r.publish()
}

// setClock learns by how much the local clock is ahead of the board's. What was found
// out before that was known went by the local one.
func (r *Replica) setClock(ahead int64) {
	if !r.met {
		for _, f := range r.fleets {
			for _, t := range f.targets {
				if old := t.votes[First]; old != nil {
					v := *old
					v.Since, v.Written = v.Since-ahead, v.Written-ahead
					t.votes[First] = &v
				}
			}
		}
	}
	r.ahead = ahead
}

// remember lets peers live that a roll, which lost everything, cannot name yet: who lives beats
// within half a heartbeat, which has to come in time even when Redis has much to do.
func (r *Replica) remember(now time.Time) {
	for _, p := range r.alive {
		if heard := now.Add(-r.heartbeats(0.25)); p.seen.Before(heard) {
			p.seen = heard
		}
	}
}

// muster brings the peers up to date.
func (r *Replica) muster(now time.Time, members []Member) {
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
		p.seen, p.digest, p.current = now.Add(-m.Age), m.Digest, true
	}
	r.join(now, newcomers...)
	var gone []*peer
	stirred := false
	for _, p := range r.alive {
		if !p.current && p != r.self && now.Sub(p.seen) > r.heartbeats(deadAfter) {
			gone = append(gone, p)
		}
		p.current = false
		stale := p != r.self && p.digest.Late > r.options.Stale
		stirred = stirred || stale != p.stale
		p.stale = stale
	}
	r.leave(now, gone...)
	if stirred {
		r.review(now)
	}
}

// goOnAlone makes the replica independent of the others: what it does not probe
// itself is known until it is stale, and nothing that it uses goes unprobed.
func (r *Replica) goOnAlone(now time.Time) {
	r.alone, r.nextUse = true, now.Add(usedEvery)
	if r.peers[r.self.id] == nil {
		r.join(now, r.self)
	}
	r.review(now)
}

// stayAlone looks again at what is used, and what has become stale.
func (r *Replica) stayAlone(now time.Time) {
	if now.Before(r.nextUse) {
		return
	}
	r.nextUse = now.Add(usedEvery)
	r.review(now)
}

// review decides anew for every backend whether it is probed here and what is known
// of it.
func (r *Replica) review(now time.Time) {
	for _, f := range r.fleets {
		for _, t := range f.targets {
			r.assign(now, t)
			r.settle(now, t, false)
		}
	}
}
