package router

import (
	"time"

	"github.com/capgate/capgate/internal/lib/fairshare"
)

// pool is the places at one backend. Its limiter's lock guards it.
type pool struct {
	limiter  *limiter
	addr     string
	limit    int  // 0: none
	held     int  // places that this replica has
	used     int  // by calls
	peak     int  // used at most since the last renewal
	before   int  // and in the time before
	waiting  int  // other replicas that wait, as far as is known
	replicas int  // that share the places, as far as is known
	known    bool // the store may know of this replica here

	softStart fairshare.SoftStart
	modest   bool // calls wait for more than was asked for
}

// free says whether a call may have a place. A backend without a pool has no limit.
func (p *pool) free() bool { return p == nil || p.limit == 0 || p.used < p.allowed() }

// allowed is how many calls of this replica the backend may have: as many as it has places.
// While the store is away it is its share, if that is more.
func (p *pool) allowed() int {
	switch {
	case p.limiter.all.cfg.Slots == nil:
		return p.limit
	case p.limiter.away:
		return max(p.held, p.share())
	}
	return p.held
}

// share is what each replica may have when none knows of the others, and one at least.
func (p *pool) share() int {
	replicas := max(p.replicas, int(p.limiter.all.replicas.Load()), 1)
	return min(max(p.limit/replicas, 1), p.limit)
}

func (p *pool) take() *pool {
	if p != nil {
		p.used++
		p.peak = max(p.peak, p.used)
	}
	return p
}

// release gives a call's place to the next, or to another replica that waits for it. While
// calls wait here, too, a replica keeps as many as fall to each of those that have or want
// places, so that they do not hand them around.
func (p *pool) release() {
	l := p.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	p.used--
	if p.waiting > 0 && !l.away && p.held > max(p.used, p.limit/max(p.replicas, 1)) {
		p.held--
		l.ask()
	}
	l.dispatch()
	if p.waiting > 0 && p.held > p.used {
		l.ask()
	}
}

// want is what to say of a backend for which need calls wait. While nobody else waits a
// replica has as many places as it used of late, and some more, so that calls find one.
func (p *pool) want(need int) Want {
	w := Want{Addr: p.addr, Limit: p.limit, Used: p.used, Keep: p.used}
	if p.limit == 0 {
		return w
	}
	aim := p.used
	if busy := max(p.peak, p.before); p.waiting == 0 && busy > 0 {
		aim = min(busy+max(p.limit/16, 1), p.limit)
	}
	w.Keep = max(p.used, min(p.held, aim))
	w.Need = min(need, max(p.limit-w.Keep, 0))
	if p.waiting == 0 {
		w.Spare = max(aim-w.Keep-w.Need, 0)
	}
	needs, spares, began := p.softStart.Limit(p.limiter.now(), int64(p.share()), int64(w.Keep), int64(w.Need), int64(w.Spare))
	if began {
		time.AfterFunc(fairshare.SoftStartTime, p.limiter.noticed)
	}
	p.modest = int(needs) < w.Need
	w.Need, w.Spare = int(needs), int(spares)
	return w
}
