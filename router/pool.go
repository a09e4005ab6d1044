package router

import (
	"time"

	"github.com/capgate/capgate/internal/lib/fairshare"
)

// pool is the permits of one backend. The limiter's lock guards it.
type pool struct {
	limiter      *limiter
	addr         string
	limit        int  // 0: none
	held         int  // permits that this replica has
	used         int  // by calls
	peak         int  // maximum of used since the last renewal
	previousPeak int  // and in the interval before
	waiting      int  // other replicas that wait, as far as is known
	replicas     int  // that share the permits, as far as is known
	known        bool // the store may have a record of this replica

	softStart fairshare.SoftStart
	partial   bool // fewer permits were requested than calls wait for
}

// free reports whether a call may take a permit. A backend without a pool has no limit.
func (p *pool) free() bool { return p == nil || p.limit == 0 || p.used < p.limitHere() }

// limitHere returns the number of calls that this replica may have at the backend: the held permits, or
// while the store is unavailable the replica's share, if that is more.
func (p *pool) limitHere() int {
	switch {
	case p.limiter.limits.cfg.Store == nil:
		return p.limit
	case p.limiter.storeUnavailable:
		return max(p.held, p.share())
	}
	return p.held
}

// share returns each replica's part without coordination; at least one.
func (p *pool) share() int {
	replicas := max(p.replicas, int(p.limiter.limits.replicas.Load()), 1)
	return min(max(p.limit/replicas, 1), p.limit)
}

// acquire takes a permit.
func (p *pool) acquire() *pool {
	if p != nil {
		p.used++
		p.peak = max(p.peak, p.used)
	}
	return p
}

// release hands a call's permit to the next call, or to another replica that waits. While calls wait
// here too, the replica keeps its even part, so that replicas do not pass permits back and forth. took is the
// duration of the call, which needs records; 0: unknown.
func (p *pool) release(needs *callTime, took time.Duration) {
	l := p.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	needs.observe(took)
	p.used--
	if p.waiting > 0 && !l.storeUnavailable && p.held > max(p.used, p.limit/max(p.replicas, 1)) {
		p.held--
		l.schedule()
	}
	l.dispatch()
	if p.waiting > 0 && p.held > p.used {
		l.schedule()
	}
}

// demand returns the demand for a backend for which need calls wait. While no other replica waits, a
// replica holds as many permits as it used recently, and some more.
func (p *pool) demand(need int) Demand {
	w := Demand{Addr: p.addr, Limit: p.limit, Used: p.used, Retain: p.used}
	if p.limit == 0 {
		return w
	}
	aim := p.used
	if busy := max(p.peak, p.previousPeak); p.waiting == 0 && busy > 0 {
		aim = min(busy+max(p.limit/16, 1), p.limit)
	}
	w.Retain = max(p.used, min(p.held, aim))
	w.Need = min(need, max(p.limit-w.Retain, 0))
	if p.waiting == 0 {
		w.Spare = max(aim-w.Retain-w.Need, 0)
	}
	needs, reserves, began := p.softStart.Limit(p.limiter.now(), int64(p.share()), int64(w.Retain), int64(w.Need),
		int64(w.Spare))
	if began {
		time.AfterFunc(fairshare.SoftStartTime, p.limiter.notified)
	}
	p.partial = int(needs) < w.Need
	w.Need, w.Spare = int(needs), int(reserves)
	return w
}
