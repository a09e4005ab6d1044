package ratelimit

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/tenant"
)

// scope is one limit of a tenant, perhaps of one user. Fields for calls are atomic; the others are guarded by the
// lock of the tenant's state.
type scope struct {
	of               *tenantState
	name             Name
	bounds           atomic.Pointer[tenant.Bounds]
	calls            permitPool
	permits          permitPool
	callsDenied      atomic.Pointer[denial] // no more calls
	concurrentDenied atomic.Pointer[denial] // no more permits
	due              atomic.Bool            // it is among the due ones of the tenant
	acquired         atomic.Bool            // a call took a permit since the last tick

	gone        bool          // it is removed
	granted     int64         // leased calls, without returned ones
	demand      float64       // calls per second, recently
	usedAt      int64         // used calls at measuredAt
	measuredAt  time.Duration // time of the last measure
	second      secondWindow  // for Usage
	need        int64         // waiting calls
	returned    int64         // calls to return to the store
	unreported  int64         // calls from the replica's share that the store does not know
	provisional int64         // calls from that share since the last response
	ends        time.Duration // expiry of leased calls; 0: never

	day, month BudgetUse // as in the store's last grant
	peaks      peaks     // since the last call of Peaks
	local      localShare

	held    int64 // permits
	wanting int64 // calls that wait for a permit
	peak    int64 // greatest number of used permits since the last tick
	before  int64 // peak of the tick before
	yield   bool  // another replica wants permits
	fresh   int64 // permits granted for waiting calls, which may not have taken them yet

	softStart fairshare.SoftStart
	patient   []func() // calls that wait for its end

	excess  atomic.Int64 // permits to return when calls end
	yielded atomic.Int64 // returned permits that still count in held

	quiet int // ticks without a call
}

// denial is a denial by the store.
type denial struct {
	until   time.Duration
	limit   call.Limit
	refusal *call.Refusal // shared by all rejected calls
}

func newScope(of *tenantState, name Name, stripes int, b tenant.Bounds) *scope {
	s := &scope{of: of, name: name, calls: newPermitPool(stripes), permits: newPermitPool(stripes)}
	s.second.since = of.limiter.now()
	s.local.heard = of.limiter.now()
	s.bounds.Store(&b)
	return s
}

// counts reports whether calls must be leased.
func counts(b *tenant.Bounds) bool { return b.CallsPerSecond > 0 || b.PerDay > 0 || b.PerMonth > 0 }

// used returns the number of calls made.
func (s *scope) used() int64 { return s.granted - s.calls.left() }

// refund returns a used call to the store.
func (s *scope) refund() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	if s.used() <= 0 { // the limit is newer than the call
		return
	}
	s.granted--
	s.returned++
	s.of.schedule(s)
}

// measure updates the demand by the calls since the last measure.
func (s *scope) measure(now time.Duration) {
	used := s.used()
	passed := now - s.measuredAt
	if passed <= 0 {
		return
	}
	if used > s.usedAt {
		s.quiet = 0
	}
	rate := float64(max(used-s.usedAt, 0)) / passed.Seconds()
	s.demand = max(rate, (s.demand+rate)/2)
	if passed >= time.Second {
		s.demand = rate
	}
	s.usedAt, s.measuredAt = used, now
}

// target returns the number of leased calls to keep in memory.
func (s *scope) target(b *tenant.Bounds) int64 {
	most := int64(tenant.MaxCalls)
	for _, l := range [...]struct{ limit, part int }{{b.CallsPerSecond, leaseOfRate}, {b.PerDay, leaseOfBudget},
		{b.PerMonth, leaseOfBudget}} {
		if l.limit > 0 {
			most = min(most, max(int64(l.limit/l.part), 1))
		}
	}
	return min(max(int64(s.demand*horizon.Seconds()), 1), most)
}

// demandOf returns the scope's demand. Permits that it does not retain are given up at once.
func (s *scope) demandOf(now time.Duration) Demand {
	b := s.bounds.Load()
	a := Demand{Name: s.name, Bounds: *b, Returned: s.returned, Unleased: s.unreported, Day: s.day, Month: s.month,
		Bucket: s.local.bucket, Age: now - s.local.heard, Seq: s.of.limiter.seq.Add(1)}
	a.Bounds.Burst = burst(b)
	s.measure(now)
	if counts(b) && (s.quiet == 0 || s.need > 0) {
		a.Want = max(s.need+s.target(b)-s.calls.left(), 0)
	}
	s.demandPermits(&a, now)
	s.need, s.wanting, s.returned, s.unreported = 0, 0, 0, 0
	return a
}

// nonEmpty reports whether a demand must be sent.
func (a *Demand) nonEmpty() bool {
	return a.Want > 0 || a.Returned > 0 || a.Unleased > 0 || a.Retain > 0 || a.Need > 0 || a.Spare > 0 || a.gaveUp
}

// demandPermits demands permits: the recently used number and some more, so that calls find one, unless another
// replica wants some.
func (s *scope) demandPermits(a *Demand, now time.Duration) {
	limit := int64(a.Bounds.Concurrent)
	yielded := s.yielded.Swap(0)
	s.held -= yielded
	used := s.held - s.permits.left()
	if s.peak = max(s.peak, used); s.acquired.Load() {
		s.peak = max(s.peak, 1) // short calls may have ended
	}
	busy := max(s.peak, s.before)
	target := used
	if busy > 0 && !s.yield {
		target = min(busy+max(limit/16, 1), limit)
	}
	target = max(min(target, limit), used)
	target = max(target, min(used+s.fresh, s.held))
	s.fresh = 0
	gave := s.permits.drain(s.held - target)
	s.held -= gave
	a.gaveUp = gave+yielded > 0
	a.Used, a.Retain = min(max(s.held-s.permits.left(), 0), s.held), s.held
	if limit > 0 {
		a.Need = min(s.wanting, max(limit-a.Retain, 0))
		a.unmet = s.wanting > a.Need // the store cannot grant these
		a.Spare = max(target-a.Retain-a.Need, 0)
		s.limitDemand(a, limit, now)
	}
}

// limitDemand limits a demand to an even share at first. A replica that uses its own share demands all.
func (s *scope) limitDemand(a *Demand, limit int64, now time.Duration) {
	if s.local.silent > 0 {
		return
	}
	even := max(limit/s.of.limiter.replicas.Load(), 1)
	need, spare, began := s.softStart.Limit(now, even, a.Retain, a.Need, a.Spare)
	if began {
		time.AfterFunc(fairshare.SoftStartTime, s.endSoftStart)
	}
	if s.softStart.Active(now) && a.Retain+a.Need+a.Spare > even {
		a.unmet = false // it is not known yet
	}
	a.Need, a.Spare = need, spare
}

// endSoftStart demands permits for the calls that waited for the end of the soft start.
func (s *scope) endSoftStart() {
	a := s.of
	a.mu.Lock()
	defer a.mu.Unlock()
	calls := s.patient
	if s.patient = nil; len(calls) == 0 {
		return
	}
	s.wanting += int64(len(calls))
	if a.late {
		a.limiter.fallBackScope(s)
		for _, resume := range calls {
			a.limiter.resume(resume)
		}
		return
	}
	a.waiting = append(a.waiting, calls...)
	a.schedule(s)
}

// apply applies a grant of the store, or of the replica's share.
func (s *scope) apply(demand *Demand, got *Grant, now time.Duration) {
	s.calls.add(got.Calls)
	s.granted += got.Calls
	if got.Calls < demand.Want {
		s.callsDenied.Store(s.deny(got.Short, now+min(max(got.Wait, s.of.limiter.pause()), maxDenial), got.Wait))
	} else if demand.Want > 0 {
		s.callsDenied.Store(nil)
	}
	if more := got.Permits - demand.Retain; more > 0 {
		s.permits.add(more)
		s.held += more
		s.fresh = min(more, demand.Need)
	} else if more < 0 { // others got them after a long silence; used permits end with their calls
		s.held -= s.permits.drain(-more)
	}
	fair := got.fair
	if s.yield = got.local || got.Sharing > 0; !got.local {
		fair = max(int64(s.bounds.Load().Concurrent)/max(got.Sharing, 1), 1)
	}
	s.limitTo(fair)
	if demand.unmet || demand.Need > 0 && got.Permits < demand.Retain+demand.Need {
		s.concurrentDenied.Store(s.deny(call.Concurrent, now+concurrentDenial, retryConcurrent))
	} else if demand.Need > 0 {
		s.concurrentDenied.Store(nil)
	}
}

// limitTo marks permits above the replica's fair share for return at the end of calls, if it must yield: otherwise a
// busy replica would keep them forever.
func (s *scope) limitTo(fair int64) {
	s.excess.Store(0)
	if s.yield {
		s.excess.Store(max(s.held-fair, 0))
	}
}

// releasePermit returns the permit of a call that has ended.
func (s *scope) releasePermit(shard uint32) {
	if s.excess.Load() > 0 && takeSome(&s.excess, 1) == 1 {
		s.yielded.Add(1)
		s.of.limiter.refill(s)
		return
	}
	s.permits.put(shard)
}

func (s *scope) deny(l call.Limit, until, after time.Duration) *denial {
	some := tenant.Limit{Per: s.name.Per, Capability: s.name.Capability, Tool: s.name.Tool}
	return &denial{until, l, tenant.LimitExceeded(s.of.owner.ID, some, l, most(s.bounds.Load(), l),
		max(after, retryLeast))}
}

// most returns the number of a limit.
func most(b *tenant.Bounds, l call.Limit) int64 {
	switch l {
	case call.Concurrent:
		return int64(b.Concurrent)
	case call.PerDay:
		return int64(b.PerDay)
	case call.PerMonth:
		return int64(b.PerMonth)
	}
	return int64(b.CallsPerSecond)
}

// burst returns the burst of a token bucket. It is at least a tenth of a second's calls, which replicas lease at a
// time.
func burst(b *tenant.Bounds) int {
	if b.CallsPerSecond == 0 {
		return 0
	}
	if b.Burst == 0 {
		return b.CallsPerSecond
	}
	return max(b.Burst, b.CallsPerSecond/10)
}
