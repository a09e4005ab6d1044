package ratelimit

import (
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
	"github.com/capgate/capgate/internal/tenant"
)

// scope is one limit of a tenant, perhaps of one user. What calls need is atomic; the rest is
// guarded by the account's lock.
type scope struct {
	of     *account
	name   Name
	bounds atomic.Pointer[tenant.Bounds]
	calls  purse
	places purse
	spent  atomic.Pointer[denial] // there are no more calls
	full   atomic.Pointer[denial] // there are no more places
	due    atomic.Bool            // it is among the account's due
	placed atomic.Bool            // a call took a place since the last tick

	gone   bool          // nobody finds it any more
	in     int64         // calls that were leased, less those that were given back
	demand float64       // calls per second of late
	usedAt int64         // calls used at the last look
	lookAt time.Duration // when that was
	need   int64         // calls that wait
	back   int64         // to be told to the store
	owed   int64         // the same: calls of budgets by this replica's own share
	stood  int64         // calls by that share since the store was last heard
	ends   time.Duration // when leased calls are good no more; 0: never

	day, month Spent // as the store told last
	own        own

	held    int64 // places
	wanting int64 // calls that wait for one
	peak    int64 // places used at most since the last tick
	before  int64 // and in the time before
	yield   bool  // another replica wants places
	fresh   int64 // places for calls that waited, which may not have taken them yet

	softStart fairshare.SoftStart
	patient   []func() // calls that wait until it ends

	excess  atomic.Int64 // places that go to it when calls end
	yielded atomic.Int64 // those that did, and are not taken off held yet

	quiet int // ticks without a call
}

// denial is what the store said.
type denial struct {
	until   time.Duration
	limit   call.Limit
	refusal *call.Refusal // shared by all whom it refuses
}

func newScope(of *account, name Name, stripes int, b tenant.Bounds) *scope {
	s := &scope{of: of, name: name, calls: newPurse(stripes), places: newPurse(stripes)}
	s.bounds.Store(&b)
	return s
}

// counts says whether calls have to be leased.
func counts(b *tenant.Bounds) bool { return b.CallsPerSecond > 0 || b.PerDay > 0 || b.PerMonth > 0 }

// used is how many calls were made.
func (s *scope) used() int64 { return s.in - s.calls.left() }

// look takes note of what calls used since the last time.
func (s *scope) look(now time.Duration) {
	used := s.used()
	passed := now - s.lookAt
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
	s.usedAt, s.lookAt = used, now
}

// aim is how many calls to have at hand.
func (s *scope) aim(b *tenant.Bounds) int64 {
	most := int64(tenant.MaxCalls)
	for _, l := range [...]struct{ limit, part int }{{b.CallsPerSecond, leaseOfRate}, {b.PerDay, leaseOfBudget}, {b.PerMonth, leaseOfBudget}} {
		if l.limit > 0 {
			most = min(most, max(int64(l.limit/l.part), 1))
		}
	}
	return min(max(int64(s.demand*horizon.Seconds()), 1), most)
}

// ask is what to say of the scope. What is said not to be kept is given up at once, before the store knows.
func (s *scope) ask(now time.Duration) Ask {
	b := s.bounds.Load()
	a := Ask{Name: s.name, Bounds: *b, Back: s.back, Spent: s.owed, Day: s.day, Month: s.month, Seq: s.of.limiter.seq.Add(1)}
	a.Bounds.Burst = burst(b)
	s.look(now)
	if counts(b) && (s.quiet == 0 || s.need > 0) {
		a.Want = max(s.need+s.aim(b)-s.calls.left(), 0)
	}
	s.askPlaces(&a, now)
	s.need, s.wanting, s.back, s.owed = 0, 0, 0, 0
	return a
}

// says is whether there is something to be said, or renewed.
func (a *Ask) says() bool {
	return a.Want > 0 || a.Back > 0 || a.Spent > 0 || a.Keep > 0 || a.Need > 0 || a.Spare > 0 || a.gaveUp
}

// askPlaces asks for places: as many as were used of late and some more, so that calls find one, unless
// another replica wants some.
func (s *scope) askPlaces(a *Ask, now time.Duration) {
	limit := int64(a.Bounds.Concurrent)
	yielded := s.yielded.Swap(0)
	s.held -= yielded
	used := s.held - s.places.left()
	if s.peak = max(s.peak, used); s.placed.Load() {
		s.peak = max(s.peak, 1) // calls may be too short to be seen
	}
	busy := max(s.peak, s.before)
	aim := used
	if busy > 0 && !s.yield {
		aim = min(busy+max(limit/16, 1), limit)
	}
	aim = max(min(aim, limit), used)
	aim = max(aim, min(used+s.fresh, s.held))
	s.fresh = 0
	gave := s.places.drain(s.held - aim)
	s.held -= gave
	a.gaveUp = gave+yielded > 0
	a.Used, a.Keep = min(max(s.held-s.places.left(), 0), s.held), s.held
	if limit > 0 {
		a.Need = min(s.wanting, max(limit-a.Keep, 0))
		a.unmet = s.wanting > a.Need // of which the store is not asked: nobody else has any
		a.Spare = max(aim-a.Keep-a.Need, 0)
		s.askPolitely(a, limit, now)
	}
}

// askPolitely asks for no more than an even part at first. A replica that goes by its own share asks for all.
func (s *scope) askPolitely(a *Ask, limit int64, now time.Duration) {
	if s.own.silent > 0 {
		return
	}
	even := max(limit/s.of.limiter.replicas.Load(), 1)
	need, spare, began := s.softStart.Limit(now, even, a.Keep, a.Need, a.Spare)
	if began {
		time.AfterFunc(fairshare.SoftStartTime, s.askGreedily)
	}
	if s.softStart.Active(now) && a.Keep+a.Need+a.Spare > even {
		a.unmet = false // that is to be seen
	}
	a.Need, a.Spare = need, spare
}

// askGreedily asks for the calls that were patient.
func (s *scope) askGreedily() {
	a := s.of
	a.mu.Lock()
	defer a.mu.Unlock()
	calls := s.patient
	if s.patient = nil; len(calls) == 0 {
		return
	}
	s.wanting += int64(len(calls))
	if a.late {
		a.limiter.stand(s)
		for _, resume := range calls {
			a.limiter.resume(resume)
		}
		return
	}
	a.waiting = append(a.waiting, calls...)
	a.touch(s)
}

// take is what the store, or this replica's own share, gives.
func (s *scope) take(asked *Ask, got *Answer, now time.Duration) {
	s.calls.add(got.Calls)
	s.in += got.Calls
	if got.Calls < asked.Want {
		s.spent.Store(s.deny(got.Short, now+min(max(got.Wait, pause()), longest), got.Wait))
	} else if asked.Want > 0 {
		s.spent.Store(nil)
	}
	if got.Places < 0 {
		return
	}
	if more := got.Places - asked.Keep; more > 0 {
		s.places.add(more)
		s.held += more
		s.fresh = min(more, asked.Need)
	} else if more < 0 { // it was silent for so long that others got them; what calls have ends with them
		s.held -= s.places.drain(-more)
	}
	fair := got.fair
	if s.yield = got.own || got.Sharing > 0; !got.own {
		fair = max(int64(s.bounds.Load().Concurrent)/max(got.Sharing, 1), 1)
	}
	s.keepTo(fair)
	if asked.unmet || asked.Need > 0 && got.Places < asked.Keep+asked.Need {
		s.full.Store(s.deny(call.Concurrent, now+crowded, retryCrowded))
	} else if asked.Need > 0 {
		s.full.Store(nil)
	}
}

// keepTo has places that are more than the replica's fair part go, if it is to yield some, when their calls end: else
// a busy replica would keep them forever.
func (s *scope) keepTo(fair int64) {
	s.excess.Store(0)
	if s.yield {
		s.excess.Store(max(s.held-fair, 0))
	}
}

// leavePlace is the end of a call that had a place.
func (s *scope) leavePlace(shard uint32) {
	if s.excess.Load() > 0 && takeSome(&s.excess, 1) == 1 {
		s.yielded.Add(1)
		s.of.limiter.poke(s)
		return
	}
	s.places.put(shard)
}

func (s *scope) deny(l call.Limit, until, after time.Duration) *denial {
	some := tenant.Limit{Per: s.name.Per, Capability: s.name.Capability, Tool: s.name.Tool}
	return &denial{until, l, tenant.LimitExceeded(s.of.owner.ID, some, l, most(s.bounds.Load(), l), max(after, retryLeast))}
}

// most is the number that a limit is.
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

// burst is how many calls may come at once. Less than those of a tenth of a second would be less than
// replicas ask for at a time.
func burst(b *tenant.Bounds) int {
	if b.CallsPerSecond == 0 {
		return 0
	}
	if b.Burst == 0 {
		return b.CallsPerSecond
	}
	return max(b.Burst, b.CallsPerSecond/10)
}
