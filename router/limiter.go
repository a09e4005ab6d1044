package router

import (
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/signal"
)

// limiter is the concurrency limit of a fleet: the permits that this replica has at each backend, and
// the calls that wait for one.
type limiter struct {
	limits     *Limits
	capability string
	state      atomic.Pointer[fleetState]

	mu               sync.Mutex
	limit            Limit
	pools            map[string]*pool // by address
	queue            waitQueue
	needed           callTimes     // by calls
	scheduled        bool          // an exchange is scheduled or in flight
	rerun            bool          // another one follows
	shared           bool          // the store may have records of this replica
	unansweredSince  time.Duration // start of the oldest unanswered demand; never: none
	storeUnavailable bool          // the store does not answer, or not in time
	exhausted        bool          // the store found no permit for a waiting call that may use any backend
	seq              uint64
	offset           int           // index of the first backend to ask for permits
	unusedSince      time.Duration // when the last fleet was removed; 0: one exists; guarded by all.mu

	waits    int64 // calls that waited
	rejected int64
}

// PermitRequest is a call's request for a permit of a limited fleet.
type PermitRequest struct {
	Tenant  string
	Backend *Backend // the only backend that it may use; nil: any
	Tried   *Backend // where an earlier attempt failed; nil: none
	// Left is the time until the caller's deadline; 0: no deadline.
	Left time.Duration
	// Whole is true for a call that must end by its deadline, as its answer is one message.
	Whole bool
}

// PermitResult is the result of a PermitRequest: a permit or a refusal.
type PermitResult struct {
	Backend *Backend
	Claim   Permit
	Refusal *call.Refusal
}

// Limited reports whether calls have to Acquire a permit instead of using Route.
func (f *Fleet) Limited() bool { return f.limiter != nil }

// AcquirePermit takes a permit of a backend of a limited fleet, chosen as by Route. Without a free
// permit the call waits, unless its deadline leaves too little time: AcquirePermit calls park under a lock.
// The function that park returns resumes the call; it runs once, on another goroutine, and returns false if
// the caller is gone. The Waiter is nil if the call does not wait.
func (f *Fleet) AcquirePermit(e PermitRequest, park func() (resume func(PermitResult) bool)) (*Waiter, PermitResult) {
	l := f.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	a, ok := l.tryAcquire(&e)
	if !ok && !l.storeUnavailable && l.limits.unavailable() {
		l.storeUnavailable = true
		a, ok = l.tryAcquire(&e)
	}
	if ok {
		return nil, a
	}
	w := &Waiter{limiter: l, request: e}
	if !l.patient(w) {
		l.rejected++
		return nil, PermitResult{Refusal: l.refusal("the deadline is too near to wait for a backend of capability ")}
	}
	if l.queue.count >= l.limit.Queue.Size {
		l.rejected++
		refusal := l.refusal("too many calls wait for a backend of capability ")
		last := l.queue.evict(e.Tenant)
		if last == nil {
			return nil, PermitResult{Refusal: refusal}
		}
		l.limits.complete(completion{l, last, PermitResult{Refusal: refusal}})
	}
	l.waits++
	w.resume = park()
	l.queue.add(w)
	if !l.exhausted || e.Backend != nil {
		l.schedule()
	}
	signal.Wake(l.limits.wake) // Run enforces the longest wait
	return w, PermitResult{}
}

// patient sets how long a call waits: for the fleet's longest wait, but no longer than until its deadline leaves
// too little time to end by it. It reports whether the call waits at all.
func (l *limiter) patient(w *Waiter) bool {
	now, longest, left := l.now(), l.limit.Queue.Wait, w.request.Left
	if left == 0 {
		left = longest
	} else if need := l.needed.of(w.request.Tenant).expected; w.request.Whole && need > 0 {
		left -= need
		longest = min(longest, left)
	} // else the deadline itself ends the call
	w.late, w.until = now+min(left, longest)/2, now+longest
	return longest > 0
}

func (l *limiter) now() time.Duration { return l.state.Load().clock.now() }

// refusal returns the refusal of calls that cannot wait, or have waited too long.
func (l *limiter) refusal(message string) *call.Refusal {
	return &call.Refusal{
		Kind: call.ResourceExhausted, Reason: "CONCURRENCY_LIMIT", Message: message + l.capability,
		Metadata: map[string]string{
			"capability": l.capability, "max_concurrent": strconv.Itoa(l.limit.PerBackend),
		}, RetryAfter: retryAfter,
	}
}

// tryAcquire takes a permit for a call or refuses it, if either is possible now.
func (l *limiter) tryAcquire(e *PermitRequest) (PermitResult, bool) {
	f := l.state.Load().fleet.Load()
	b := e.Backend
	if b == nil {
		first, none := f.choose(e.Tried)
		if none != nil {
			return PermitResult{Refusal: none}, true
		}
		b = l.withPermit(f, first.backend, e.Tried)
	} else if !l.pools[b.Addr].free() {
		b = nil
	}
	if b == nil {
		return PermitResult{}, false
	}
	b.load.inFlight.Add(1)
	if e.Tried == nil {
		b.load.routed.Add(1)
	}
	permit := Permit{b.load, l.pools[b.Addr].acquire(), l.needed.of(e.Tenant)}
	return PermitResult{Backend: b, Claim: permit}, true
}

// withPermit returns first if it has a permit, else the least loaded backend that has, or nil.
func (l *limiter) withPermit(f *Fleet, first, tried *Backend) *Backend {
	if l.pools[first.Addr].free() {
		return first
	}
	var best *member
	all := f.pick.Load().all
	for i := range all {
		m := &all[i]
		switch {
		case len(all) > 1 && m.Backend == tried, !l.pools[m.Addr].free():
		case best == nil, m.inZone && !best.inZone, m.inZone == best.inZone && m.load.lighter(best.load):
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
	if l.queue.count == 0 {
		return
	}
	for now := l.now(); l.queue.count > 0; {
		var a PermitResult
		exhausted := false // no backend has a permit
		w := l.queue.next(now, func(w *Waiter) (ok bool) {
			if exhausted && w.request.Backend == nil {
				return false
			}
			a, ok = l.tryAcquire(&w.request)
			exhausted = exhausted || !ok && w.request.Backend == nil && w.request.Tried == nil
			return ok
		})
		if w == nil {
			return
		}
		l.limits.complete(completion{l, w, a})
	}
}

// tick rejects the calls that have waited too long, and schedules the demands.
func (l *limiter) tick(renew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if now-l.unansweredSince >= l.limits.cfg.Timeout {
		l.storeUnavailable = true
	}
	l.dispatch() // a backend may have become healthy
	l.queue.expire(now, func(w *Waiter) {
		l.rejected++
		l.limits.complete(completion{
			l, w, PermitResult{Refusal: l.refusal("no backend had a place in time for a call of capability ")},
		})
	})
	if renew {
		l.offset += maxAsked
		for _, p := range l.pools {
			p.previousPeak, p.peak = p.peak, p.used
		}
	}
	if renew && (l.shared || l.storeUnavailable) || l.queue.count > 0 {
		l.schedule()
	}
	if renew && l.idle() {
		l.limits.forget(l, now)
	}
}

// idle reports whether no call holds or awaits a permit, and the store has no record of this replica or will drop it by
// itself.
func (l *limiter) idle() bool {
	for _, p := range l.pools {
		if p.used > 0 {
			return false
		}
	}
	return l.queue.count == 0 && (!l.shared || l.storeUnavailable)
}

// notified is called when permits are wanted or returned at another replica.
func (l *limiter) notified() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shared || l.queue.count > 0 {
		l.schedule()
	}
}

func (l *limiter) stats(s *Stats) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Limited, s.Waiting, s.Waits, s.LimitRejected = true, l.queue.count, l.waits, l.rejected
	for _, p := range l.pools {
		s.Permits += p.limitHere()
		s.PermitsUsed += p.used
	}
}

// setLimiter sets the limiter of a fleet with limits. The caller holds state.mu.
func (f *Fleet) setLimiter(all *Limits) error {
	if !slices.ContainsFunc(f.members, func(m member) bool { return m.limit > 0 }) {
		return nil
	}
	if f.state.limiter == nil {
		if all == nil {
			return fmt.Errorf("fleet %s has a limit, but there are no Limits", f.Capability)
		}
		f.state.limiter = all.of(f.state, f.Capability)
	}
	f.limiter = f.state.limiter
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
		l.schedule()
	}
	l.dispatch()
}
