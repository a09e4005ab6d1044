package ratelimit

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Meter counts what happens to one tenant's calls.
type Meter interface {
	Limited(l call.Limit, shadow bool) // a call was beyond it; with shadow it went on
}

// Config is for a Limiter. Store is required.
type Config struct {
	Store    Store                     // that replicas share
	Replicas func() int                // how many there are, 0: not known; it must not block; default not known
	Meter    func(tenant string) Meter // default nothing is counted
}

// Limiter knows what tenants have used of their limits. Run has to run while calls come.
type Limiter struct {
	cfg      Config
	stripes  int
	begun    time.Time
	accounts sync.Map // tenant → *account
	single   atomic.Pointer[tenant.Settings]
	seq      atomic.Int64
	valued   atomic.Int64
	waiting  atomic.Int64 // calls
	replicas atomic.Int64 // as far as was known last
	counts   exchanges

	wake chan struct{}
	mu   sync.Mutex // after any account's
	due  queue
	goOn []func()
	busy int // exchanges under way
}

// New makes a Limiter.
func New(cfg Config) *Limiter {
	l := &Limiter{cfg: cfg, stripes: 1, begun: time.Now(), wake: make(chan struct{}, 1)}
	for l.stripes < runtime.GOMAXPROCS(0) && l.stripes < 64 {
		l.stripes *= 2
	}
	l.replicas.Store(1)
	return l
}

// Single says what holds for calls without settings: those of a gateway that has one tenant. nil: nothing.
func (l *Limiter) Single(s *tenant.Settings) { l.single.Store(s) }

// now is the time since the Limiter was made; never 0.
func (l *Limiter) now() time.Duration { return time.Since(l.begun) + 1 }

// Permit is what one call has. The zero value is of a call that has asked for nothing.
type Permit struct {
	places  [2]*scope
	more    []*scope // further places
	missing *scope   // what it waits for
	place   bool     // that is a place
	rounds  uint8
	shadow  uint8 // the first limit that would have refused it, and 1
}

// Shadowed is the limit that would have refused the call, were it in force.
func (p *Permit) Shadowed() (l call.Limit, is bool) { return call.Limit(p.shadow - 1), p.shadow > 0 }

// Take lets a call go on, or refuses it. Not ok without a refusal says that it is not known: Wait, and take
// again. shard is any number that differs between goroutines that take at the same time. It
// keeps no string of c.
func (l *Limiter) Take(s *tenant.Settings, c *call.Call, shard uint32, p *Permit) (refusal *call.Refusal, ok bool) {
	if s == nil {
		if s = l.single.Load(); s == nil {
			return nil, true
		}
	}
	if !s.Limits.Counted() {
		return nil, true
	}
	a, rules := l.rules(s)
	for i := range rules.rules {
		r := &rules.rules[i]
		sc := r.scopeOf(a, c)
		if sc == nil {
			continue
		}
		missing, place := sc.enter(&r.of.Bounds, shard, p)
		if !missing {
			continue
		}
		if !rules.limits.Shadow {
			l.undo(a, rules.rules[:i], c, shard, p)
			return l.refuse(a, sc, place, p, len(rules.rules)+spareRounds)
		}
		if d := sc.denied(place, l.now()); d != nil {
			a.count(d.limit, true)
			p.shadow = uint8(d.limit) + 1
		} else {
			l.want(a, sc, place)
		}
	}
	return nil, true
}

// rules are a tenant's, as its settings say.
func (l *Limiter) rules(s *tenant.Settings) (*account, *plan) {
	var a *account
	if known, ok := l.accounts.Load(s.ID); ok {
		if a = known.(*account); a.owner.UID != s.UID() {
			l.bury(a)
			a = nil
		}
	}
	if a == nil {
		a = &account{limiter: l, owner: Owner{s.ID, s.UID()}}
		if l.cfg.Meter != nil {
			a.meter = l.cfg.Meter(s.ID)
		}
		a.configure(&s.Limits) // nobody finds one without a plan
		known, _ := l.accounts.LoadOrStore(s.ID, a)
		a = known.(*account)
	}
	p := a.plan.Load()
	if !sameLimits(&p.limits, &s.Limits) {
		p = a.configure(&s.Limits)
	}
	return a, p
}

// bury forgets the account of a tenant that was deleted, as another one has its id now. Nothing is given back: nobody
// else may have it.
func (l *Limiter) bury(a *account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end()
	l.valued.Add(-int64(a.valued))
	a.valued = 0
}

// enter takes what one scope asks of a call, all or nothing.
func (s *scope) enter(b *tenant.Bounds, shard uint32, p *Permit) (missing, place bool) {
	counted := counts(b)
	if counted {
		ok, low := s.calls.take(shard)
		if low && s.denied(false, 0) == nil {
			s.of.limiter.poke(s)
		}
		if !ok {
			return true, false
		}
	}
	if b.Concurrent == 0 {
		return false, false
	}
	ok, low := s.places.take(shard)
	if low && s.denied(true, 0) == nil {
		s.of.limiter.poke(s)
	}
	if !ok {
		if counted {
			s.calls.put(shard)
		}
		return true, true
	}
	if !s.placed.Load() {
		s.placed.Store(true)
	}
	p.hold(s)
	return false, false
}

// denied is what the store said last, if that still stands. Without a time: now.
func (s *scope) denied(place bool, now time.Duration) *denial {
	said := &s.spent
	if place {
		said = &s.full
	}
	d := said.Load()
	if d == nil {
		return nil
	}
	if now == 0 {
		now = s.of.limiter.now()
	}
	if now >= d.until {
		return nil
	}
	return d
}

// undo gives back what a call has that goes no further.
func (l *Limiter) undo(a *account, rules []rule, c *call.Call, shard uint32, p *Permit) {
	for i := range rules {
		if s := rules[i].scopeOf(a, c); s != nil && counts(&rules[i].of.Bounds) {
			s.calls.put(shard)
		}
	}
	l.Release(shard, p)
}

// refuse tells a call that it may not go on, or not yet.
func (l *Limiter) refuse(a *account, s *scope, place bool, p *Permit, rounds int) (*call.Refusal, bool) {
	d := s.denied(place, l.now())
	if d == nil && int(p.rounds) >= rounds {
		d = s.unknown(place)
	}
	switch {
	case d != nil:
		a.count(d.limit, false)
		return d.refusal, false
	case l.waiting.Load() >= maxWaiting:
		return refusedWaiting, false
	}
	p.missing, p.place = s, place
	return nil, false
}

// unknown refuses a call that the store gave nothing, although it did not say that there is nothing: others
// were faster each time.
func (s *scope) unknown(place bool) *denial {
	l := call.CallsPerSecond
	b := s.bounds.Load()
	switch {
	case place:
		l = call.Concurrent
	case b.CallsPerSecond == 0 && b.PerDay > 0:
		l = call.PerDay
	case b.CallsPerSecond == 0:
		l = call.PerMonth
	}
	return s.deny(l, 0, time.Second)
}

func (a *account) count(l call.Limit, shadow bool) {
	if a.meter != nil {
		a.meter.Limited(l, shadow)
	}
}

func (p *Permit) hold(s *scope) {
	for i := range p.places {
		if p.places[i] == nil {
			p.places[i] = s
			return
		}
	}
	p.more = append(p.more, s)
}

// Release gives back the places of a call that has ended. It may be called for any, once it will not
// Take again.
func (l *Limiter) Release(shard uint32, p *Permit) {
	for i, s := range p.places {
		if s == nil {
			return
		}
		s.leavePlace(shard)
		p.places[i] = nil
	}
	for _, s := range p.more {
		s.leavePlace(shard)
	}
	p.more = nil
}
