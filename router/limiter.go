package router

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// limiter is the concurrency limit of a fleet: the permits that this replica has at each backend, and
// the calls that wait for one.
type limiter struct {
	all        *Limits
	capability string
	standing   atomic.Pointer[standing]

	mu     sync.Mutex
	limit  Limit
	pools  map[string]*pool // by address
	queue  waiting
	asked  bool          // an exchange is scheduled or in flight
	again  bool          // another one follows
	shared bool          // the store may have records of this replica
	owed   time.Duration // start of the oldest unanswered demand; never: none
	away   bool          // the store does not answer, or not in time
	short  bool          // the store found no permit for a waiting call that may use any backend
	seq    uint64
	turn   int           // index of the first backend to ask for permits
	gone   time.Duration // when the last fleet was removed; 0: one exists; guarded by all.mu

	waits   int64 // calls that waited
	refused int64
}

// Entrant is a call's request for a permit of a limited fleet.
type Entrant struct {
	Tenant  string
	Backend *Backend // the only backend that it may use; nil: any
	Tried   *Backend // where an earlier attempt failed; nil: none
}

// Admission is the result of a PermitRequest: a permit or a refusal.
type Admission struct {
	Backend *Backend
	Claim   Claim
	Refusal *call.Refusal
}

// Limited reports whether calls have to Acquire a permit instead of using Route.
func (f *Fleet) Limited() bool { return f.limiter != nil }

// AcquirePermit takes a permit of a backend of a limited fleet, chosen as by Route. Without a free
// permit the call waits: AcquirePermit calls park under a lock. The function that park returns
// resumes the call; it runs once, on another goroutine, and returns false if the caller is gone. The
// Waiter is nil if the call does not wait.
func (f *Fleet) Enter(e Entrant, park func() (resume func(Admission) bool)) (*Waiter, Admission) {
	l := f.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.admit(&e)
	if !ok && !l.away && l.all.away() {
		l.away = true
		a, ok = l.admit(&e)
	}
	if ok {
		return nil, a
	}
	if l.queue.count >= l.limit.Queue {
		l.refused++
		refusal := l.full("too many calls wait for a backend of capability ")
		last := l.queue.pushOut(e.Tenant)
		if last == nil {
			return nil, Admission{Refusal: refusal}
		}
		l.all.decide(decided{l, last, Admission{Refusal: refusal}})
	}
	l.waits++
	w := &Waiter{limiter: l, entrant: e, until: l.now() + l.limit.Wait, resume: park()}
	l.queue.add(w)
	if !l.short || e.Backend != nil {
		l.ask()
	}
	poke(l.all.wake) // Run enforces the longest wait
	return w, Admission{}
}

func (l *limiter) now() time.Duration { return l.standing.Load().clock.now() }

// full is the refusal of calls that cannot wait, or have waited too long.
func (l *limiter) full(message string) *call.Refusal {
	return &call.Refusal{
		Kind: call.ResourceExhausted, Reason: "CONCURRENCY_LIMIT", Message: message + l.capability,
		Metadata: map[string]string{"capability": l.capability, "max_concurrent": strconv.Itoa(l.limit.PerBackend)}, RetryAfter: retryAfter,
	}
}

// admit takes a permit for a call or refuses it, if either is possible now.
func (l *limiter) admit(e *Entrant) (Admission, bool) {
	f := l.standing.Load().fleet.Load()
	b := e.Backend
	if b == nil {
		first, none := f.choose(e.Tried)
		if none != nil {
			return Admission{Refusal: none}, true
		}
		b = l.instead(f, first.backend, e.Tried)
	} else if !l.pools[b.Addr].free() {
		b = nil
	}
	if b == nil {
		return Admission{}, false
	}
	b.load.inFlight.Add(1)
	if e.Tried == nil {
		b.load.routed.Add(1)
	}
	return Admission{Backend: b, Claim: Claim{b.load, f.clock, l.pools[b.Addr].take()}}, true
}

// instead returns first if it has a permit, else the least loaded backend that has, or nil.
func (l *limiter) instead(f *Fleet, first, tried *Backend) *Backend {
	if l.pools[first.Addr].free() {
		return first
	}
	var best *member
	all := f.pick.Load().all
	for i := range all {
		m := &all[i]
		switch {
		case len(all) > 1 && m.Backend == tried, !l.pools[m.Addr].free():
		case best == nil, m.near && !best.near, m.near == best.near && m.load.lighter(best.load):
			best = m
		}
	}
	if best == nil {
		return nil
	}
	return best.Backend
}

// dispatch hands free permits to waiting calls.
func (l *limiter) dispatch() {
	for l.queue.count > 0 {
		var a Admission
		full := false // no backend has a permit
		w := l.queue.next(func(w *Waiter) (ok bool) {
			if full && w.entrant.Backend == nil {
				return false
			}
			a, ok = l.admit(&w.entrant)
			full = full || !ok && w.entrant.Backend == nil && w.entrant.Tried == nil
			return ok
		})
		if w == nil {
			return
		}
		l.all.decide(decided{l, w, a})
	}
}

// tick rejects the calls that have waited too long, and schedules the demands.
func (l *limiter) tick(renew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now-l.owed >= l.all.cfg.Patience {
		l.away = true
	}
	l.dispatch() // health may have brought a backend back
	for w := l.queue.late(now); w != nil; w = l.queue.late(now) {
		l.refused++
		l.all.decide(decided{l, w, Admission{Refusal: l.full("no backend had a place in time for a call of capability ")}})
	}
	if renew {
		l.turn += maxAsked
		for _, p := range l.pools {
			p.before, p.peak = p.peak, p.used
		}
	}
	if renew && (l.shared || l.away) || l.queue.count > 0 {
		l.ask()
	}
	if renew && l.idle() {
		l.all.forget(l, now)
	}
}

// idle reports whether no call has or wants a permit, and the store has no record of this replica or
// will drop it by itself.
func (l *limiter) idle() bool {
	for _, p := range l.pools {
		if p.used > 0 {
			return false
		}
	}
	return l.queue.count == 0 && (!l.shared || l.away)
}

// noticed is called when permits are wanted or returned at another replica.
func (l *limiter) noticed() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shared || l.queue.count > 0 {
		l.ask()
	}
}

func (l *limiter) stats(s *Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Limited, s.Waiting, s.Waits, s.LimitRefused = true, l.queue.count, l.waits, l.refused
	for _, p := range l.pools {
		s.Places += p.allowed()
		s.PlacesUsed += p.used
	}
}

// bound sets the limiter of a fleet with limits. The caller holds state.mu.
func (f *Fleet) bound(all *Limits) error {
	if !slices.ContainsFunc(f.members, func(m member) bool { return m.limit > 0 }) {
		return nil
	}
	if f.standing.limiter == nil {
		if all == nil {
			return fmt.Errorf("fleet %s has a limit, but there are no Limits", f.Capability)
		}
		f.standing.limiter = all.of(f.standing, f.Capability)
	}
	f.limiter = f.standing.limiter
	return nil
}

// configure applies a fleet's limits, which may have been removed.
func (l *limiter) configure(f *Fleet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = f.limit
	for _, p := range l.pools {
		p.limit = 0
	}
	for _, m := range f.members {
		p := l.pools[m.Addr]
		if p == nil {
			if m.limit == 0 {
				continue
			}
			p = &pool{limiter: l, addr: m.Addr}
			l.pools[m.Addr] = p
		}
		p.limit = m.limit
	}
	if l.shared {
		l.ask()
	}
	l.dispatch()
}
