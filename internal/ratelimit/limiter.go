package ratelimit

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Meter counts a tenant's limited calls.
type Meter interface {
	Limited(l call.Limit, shadow bool) // a call exceeded the limit; with shadow it continued
}

// Config configures a Limiter. Store is required.
type Config struct {
	Store Store // shared by replicas
	// for Usage; nil: budgets of tenants that do not call this replica count as unused
	Budgets  Budgets
	Replicas func() int                 // number of replicas, 0: unknown; must not block; default unknown
	Meter    func(tenant string) Meter  // default none
	Label    func(tenant string) string // one of a bounded set, "" for none; default: no such metrics
	// Jitter returns a random duration below its argument; default rand.N.
	Jitter func(time.Duration) time.Duration
}

// Limiter enforces tenants' limits. Run must run while calls come.
type Limiter struct {
	cfg         Config
	stripes     int
	started     time.Time
	tenants     sync.Map // tenant → *tenantState
	single      atomic.Pointer[tenant.Settings]
	seq         atomic.Int64
	valueScopes atomic.Int64
	waiting     atomic.Int64 // calls
	replicas    atomic.Int64 // the last known number
	counts      exchanges

	wake      chan struct{}
	mu        sync.Mutex // is locked after that of a tenantState
	due       queue
	resumable []func()
	busy      int // exchanges in progress
}

// New returns a Limiter.
func New(cfg Config) *Limiter {
	l := &Limiter{cfg: cfg, stripes: 1, started: time.Now(), wake: make(chan struct{}, 1)}
	if l.cfg.Jitter == nil {
		l.cfg.Jitter = rand.N[time.Duration]
	}
	for l.stripes < runtime.GOMAXPROCS(0) && l.stripes < 64 {
		l.stripes *= 2
	}
	l.replicas.Store(1)
	return l
}

// Single sets the settings of calls without a tenant's settings, in a gateway with one tenant. nil: no limits.
func (l *Limiter) Single(s *tenant.Settings) { l.single.Store(s) }

// now returns the time since the creation of the Limiter; never 0.
func (l *Limiter) now() time.Duration { return time.Since(l.started) + 1 }

// Permit has the permits of one call. The zero value has none.
type Permit struct {
	permits    [2]*scope
	more       *further // nil means none
	missing    *scope   // the scope that it waits for
	concurrent bool     // it waits for a permit for concurrent calls
	rounds     uint8
	shadow     uint8 // the first limit that would have rejected it, plus 1
}

// further is a list of scopes that do not fit into a Permit. Few calls have one.
type further struct {
	scope *scope
	next  *further
}

// Shadowed returns the limit that would have rejected the call without shadow mode.
func (p *Permit) Shadowed() (l call.Limit, is bool) { return call.Limit(p.shadow - 1), p.shadow > 0 }

// Take admits a call, or rejects it. ok is false without a refusal if the result is not known: then call Wait, and
// Take again. shard is any number that differs between concurrent goroutines. Take retains no string of c.
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
		missing, concurrent := sc.acquire(&r.of.Bounds, shard, p)
		if !missing {
			continue
		}
		if !rules.limits.Shadow {
			l.undo(a, rules.rules[:i], c, shard, p)
			return l.refuse(a, sc, concurrent, p, len(rules.rules)+spareRounds)
		}
		if d := sc.denied(concurrent, l.now()); d != nil {
			a.count(d.limit, true)
			p.shadow = uint8(d.limit) + 1
		} else {
			l.want(a, sc, concurrent)
		}
	}
	return nil, true
}

// Refund has a call that was admitted today count for no limit, as another call has counted for it. It stays counted
// for a user, agent or capability whose state was removed since.
func (l *Limiter) Refund(s *tenant.Settings, c *call.Call) {
	if s == nil {
		if s = l.single.Load(); s == nil {
			return
		}
	}
	if !s.Limits.Counted() {
		return
	}
	a, rules := l.rules(s)
	for i := range rules.rules {
		r := &rules.rules[i]
		if sc := r.scopeOf(a, c); sc != nil && counts(&r.of.Bounds) {
			sc.refund()
		}
	}
}

// handle is the state of a tenant and its plan for the settings in whose slot it is.
type handle struct {
	state *tenantState
	plan  *plan
}

// rules returns a tenant's state and its plan for the settings.
func (l *Limiter) rules(s *tenant.Settings) (*tenantState, *plan) {
	h, ok := s.Slots.Limits.Load().(*handle)
	if ok && h.state.limiter == l && h.state.plan.Load() == h.plan && !h.state.gone.Load() {
		return h.state, h.plan
	}
	a, p := l.findRules(s)
	s.Slots.Limits.Store(&handle{a, p})
	return a, p
}

// findRules is rules without the slot.
func (l *Limiter) findRules(s *tenant.Settings) (*tenantState, *plan) {
	var a *tenantState
	if known, ok := l.tenants.Load(s.ID); ok {
		if a = known.(*tenantState); a.owner.UID != s.UID() {
			l.discard(a)
			a = nil
		}
	}
	if a == nil {
		a = &tenantState{limiter: l, owner: Owner{s.ID, s.UID()}}
		if l.cfg.Meter != nil {
			a.meter = l.cfg.Meter(s.ID)
		}
		a.configure(&s.Limits) // a published state always has a plan
		known, _ := l.tenants.LoadOrStore(s.ID, a)
		a = known.(*tenantState)
	}
	p := a.plan.Load()
	if !sameLimits(&p.limits, &s.Limits) {
		p = a.configure(&s.Limits)
	}
	return a, p
}

// discard removes the state of a deleted tenant, whose id another tenant has now. It returns no lease, as the new
// tenant must not get it.
func (l *Limiter) discard(a *tenantState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end()
	l.valueScopes.Add(-int64(a.valueScopes))
	a.valueScopes = 0
}

// acquire takes a call and a permit of one scope, both or neither.
func (s *scope) acquire(b *tenant.Bounds, shard uint32, p *Permit) (missing, concurrent bool) {
	counted, ok, lowCalls, lowPermits := counts(b), false, false, false
	if counted {
		if ok, lowCalls = s.calls.take(shard); !ok {
			return true, false
		}
	}
	if b.Concurrent > 0 {
		if ok, lowPermits = s.permits.take(shard); !ok {
			if counted {
				s.calls.put(shard)
			}
			return true, true
		}
		if !s.acquired.Load() {
			s.acquired.Store(true)
		}
		p.add(s)
	}
	if lowCalls && s.denied(false, 0) == nil || lowPermits && s.denied(true, 0) == nil {
		s.of.limiter.refill(s)
	}
	return false, false
}

// denied returns the store's last denial, if it is still valid. now 0: the current time.
func (s *scope) denied(concurrent bool, now time.Duration) *denial {
	said := &s.callsDenied
	if concurrent {
		said = &s.concurrentDenied
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

// undo returns what a rejected or waiting call has taken.
func (l *Limiter) undo(a *tenantState, rules []rule, c *call.Call, shard uint32, p *Permit) {
	for i := range rules {
		if s := rules[i].scopeOf(a, c); s != nil && counts(&rules[i].of.Bounds) {
			s.calls.put(shard)
		}
	}
	l.Release(shard, p)
}

// refuse rejects a call, or makes it wait.
func (l *Limiter) refuse(a *tenantState, s *scope, concurrent bool, p *Permit, rounds int) (*call.Refusal, bool) {
	d := s.denied(concurrent, l.now())
	if d == nil && int(p.rounds) >= rounds {
		d = s.unknown(concurrent)
	}
	switch {
	case d != nil:
		a.count(d.limit, false)
		return d.refusal, false
	case l.waiting.Load() >= maxWaiting:
		return refusedWaiting, false
	}
	p.missing, p.concurrent = s, concurrent
	return nil, false
}

// unknown rejects a call that got nothing without a denial by the store: other calls were faster each time.
func (s *scope) unknown(concurrent bool) *denial {
	l := call.CallsPerSecond
	b := s.bounds.Load()
	switch {
	case concurrent:
		l = call.Concurrent
	case b.CallsPerSecond == 0 && b.PerDay > 0:
		l = call.PerDay
	case b.CallsPerSecond == 0:
		l = call.PerMonth
	}
	return s.deny(l, 0, time.Second)
}

func (a *tenantState) count(l call.Limit, shadow bool) {
	if a.meter != nil {
		a.meter.Limited(l, shadow)
	}
}

func (p *Permit) add(s *scope) {
	for i := range p.permits {
		if p.permits[i] == nil {
			p.permits[i] = s
			return
		}
	}
	p.more = &further{s, p.more}
}

// Release returns the permits of a call that has ended. It may be called for any call that does not call Take again.
func (l *Limiter) Release(shard uint32, p *Permit) {
	for i, s := range p.permits {
		if s == nil {
			return
		}
		s.releasePermit(shard)
		p.permits[i] = nil
	}
	for f := p.more; f != nil; f = f.next {
		f.scope.releasePermit(shard)
	}
	p.more = nil
}
