package fairshare

import (
	"sync"
	"sync/atomic"
)

// Share is how many times what is free one owner may hold.
const Share = 4

// Pool is an amount that owners share. It is safe for concurrent use.
type Pool struct {
	name   string
	limit  int64
	above  *Pool
	as     string // the owner above of all that is here; "": each owner is the same above
	weight int64  // what one unit counts above
	whole  bool   // an owner may have all of it

	used    atomic.Int64
	refused atomic.Int64

	mu       sync.Mutex // of changes to which accounts there are
	accounts sync.Map   // owner → *Account
	many     int        // accounts, under mu
	sweepAt  int        // accounts from which on those that hold nothing are forgotten, under mu
}

// Option changes a pool that is made.
type Option func(*Pool)

// As has all owners of a pool be one owner in the pool above.
func As(owner string) Option { return func(p *Pool) { p.as = owner } }

// Weight has each unit of a pool count so many times in the pool above: it is there that often.
func Weight(n int64) Option { return func(p *Pool) { p.weight = n } }

// Whole lets an owner have all of a pool: the process itself, which has nobody to leave room for.
func Whole() Option { return func(p *Pool) { p.whole = true } }

// leastSweep is how many accounts a pool has before it forgets any.
const leastSweep = 1024

// New makes a pool without one above it.
func New(name string, limit int64, options ...Option) *Pool {
	p := &Pool{name: name, limit: limit, weight: 1, sweepAt: leastSweep}
	for _, option := range options {
		option(p)
	}
	return p
}

// Sub makes a pool whose amounts count in p as well.
func (p *Pool) Sub(name string, limit int64, options ...Option) *Pool {
	sub := New(name, limit, options...)
	sub.above = p
	return sub
}

// Name is what the pool was made with.
func (p *Pool) Name() string { return p.name }

// Limit is what the pool was made with.
func (p *Pool) Limit() int64 { return p.limit }

// Used is how much is reserved.
func (p *Pool) Used() int64 { return p.used.Load() }

// Refused counts what was not reserved, since the start.
func (p *Pool) Refused() int64 { return p.refused.Load() }

// Of is the account of an owner. It may be kept. The string is not changed, and may be kept as well.
func (p *Pool) Of(owner string) *Account {
	if a, ok := p.accounts.Load(owner); ok {
		return a.(*Account)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.accounts.Load(owner); ok {
		return a.(*Account)
	}
	if p.many >= p.sweepAt {
		p.sweep()
	}
	a := &Account{pool: p}
	if p.above != nil {
		above := p.as
		if above == "" {
			above = owner
		}
		a.above = p.above.Of(above)
	}
	p.accounts.Store(owner, a)
	p.many++
	return a
}

// sweep forgets accounts that hold nothing. Whoever kept one goes on with it: it counts for the pool, and no longer
// together with what its owner gets by a new one.
func (p *Pool) sweep() {
	p.accounts.Range(func(owner, a any) bool {
		if a.(*Account).held.Load() == 0 {
			p.accounts.Delete(owner)
			p.many--
		}
		return true
	})
	p.sweepAt = max(2*p.many, leastSweep)
}

// Account is what one owner holds of a pool. It is safe for concurrent use.
type Account struct {
	pool  *Pool
	above *Account
	held  atomic.Int64
}

// Held is how much is reserved.
func (a *Account) Held() int64 { return a.held.Load() }

// Reserve takes n more, or nothing if that is more than the owner may hold, here or above. It takes no lock. What is
// reserved here is reserved above before, so that a pool never has less than the pools below it.
func (a *Account) Reserve(n int64) bool {
	p := a.pool
	if p.limit-p.used.Load() < n || a.above != nil && !a.above.Reserve(n*p.weight) {
		p.refused.Add(1)
		return false
	}
	if a.take(n) {
		return true
	}
	if a.above != nil {
		a.above.Release(n * p.weight)
	}
	p.refused.Add(1)
	return false
}

// take is Reserve in one pool alone. The pool's limit holds at every moment, whatever others take meanwhile.
func (a *Account) take(n int64) bool {
	p, held := a.pool, a.held.Add(n)
	for {
		used := p.used.Load()
		free := p.limit - used - n
		if free < 0 || !p.whole && held > Share*free {
			a.held.Add(-n)
			return false
		}
		if p.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// Release gives n back.
func (a *Account) Release(n int64) {
	for ; a != nil; a = a.above {
		a.held.Add(-n)
		a.pool.used.Add(-n)
		n *= a.pool.weight
	}
}
