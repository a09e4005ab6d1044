package fairshare

import (
	"sync"
	"sync/atomic"
)

// Share is the largest multiple of the free amount that one owner may hold.
const Share = 4

// Pool is an amount that owners share. It is safe for concurrent use.
type Pool struct {
	name        string
	limit       int64
	above       *Pool
	parentOwner string // owner in the parent pool of all that this pool reserves; "": owners are the same in both
	weight      int64  // amount that one unit reserves in the parent pool
	unshared    bool   // one owner may hold the whole pool

	used    atomic.Int64
	refused atomic.Int64

	mu       sync.Mutex // guards changes to the set of accounts
	accounts sync.Map   // owner → *Account
	count    int        // number of accounts, under mu
	sweepAt  int        // number of accounts from which on idle ones are removed, under mu
}

// Option changes a pool that New or Sub makes.
type Option func(*Pool)

// AsOwner makes all owners of a pool a single owner in the parent pool.
func AsOwner(owner string) Option { return func(p *Pool) { p.parentOwner = owner } }

// Weight makes each unit of a pool reserve n units of the parent pool.
func Weight(n int64) Option { return func(p *Pool) { p.weight = n } }

// Unshared permits one owner to hold the whole pool. It is for pools of the process itself, which has no other owner.
func Unshared() Option { return func(p *Pool) { p.unshared = true } }

// leastSweep is the number of accounts from which on a pool removes idle ones.
const leastSweep = 1024

// New returns a pool without a parent.
func New(name string, limit int64, options ...Option) *Pool {
	p := &Pool{name: name, limit: limit, weight: 1, sweepAt: leastSweep}
	for _, option := range options {
		option(p)
	}
	return p
}

// Sub returns a pool whose reservations count in p as well.
func (p *Pool) Sub(name string, limit int64, options ...Option) *Pool {
	sub := New(name, limit, options...)
	sub.above = p
	return sub
}

// Name returns the name passed to New or Sub.
func (p *Pool) Name() string { return p.name }

// Limit returns the limit passed to New or Sub.
func (p *Pool) Limit() int64 { return p.limit }

// Used returns the amount that is reserved.
func (p *Pool) Used() int64 { return p.used.Load() }

// Refused returns how many units could not be reserved since the start.
func (p *Pool) Refused() int64 { return p.refused.Load() }

// Of returns the account of an owner. The caller may keep it. The pool keeps the string.
func (p *Pool) Of(owner string) *Account {
	if a, ok := p.accounts.Load(owner); ok {
		return a.(*Account)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.accounts.Load(owner); ok {
		return a.(*Account)
	}
	if p.count >= p.sweepAt {
		p.sweep()
	}
	a := &Account{pool: p}
	if p.above != nil {
		above := p.parentOwner
		if above == "" {
			above = owner
		}
		a.above = p.above.Of(above)
	}
	p.accounts.Store(owner, a)
	p.count++
	return a
}

// Held returns the amount that an owner holds. It makes no account.
func (p *Pool) Held(owner string) int64 {
	if a, ok := p.accounts.Load(owner); ok {
		return a.(*Account).Held()
	}
	return 0
}

// sweep removes accounts that hold nothing. A caller that kept one may go on to use it. It still counts for the
// pool, but not together with a new account of the same owner.
func (p *Pool) sweep() {
	p.accounts.Range(func(owner, a any) bool {
		if a.(*Account).held.Load() == 0 {
			p.accounts.Delete(owner)
			p.count--
		}
		return true
	})
	p.sweepAt = max(2*p.count, leastSweep)
}

// Account is the part of a pool that one owner holds. It is safe for concurrent use.
type Account struct {
	pool  *Pool
	above *Account
	held  atomic.Int64
}

// Held returns the amount that is reserved.
func (a *Account) Held() int64 { return a.held.Load() }

// Reserve takes n more units. It takes nothing if the owner may not hold as much here or in the parent pool. It
// takes no lock. It reserves in the parent first, so that a parent never has less than its children.
func (a *Account) Reserve(n int64) bool {
	p := a.pool
	if p.limit-p.used.Load() < n || a.above != nil && !a.above.Reserve(n*p.weight) {
		p.refused.Add(1)
		return false
	}
	if a.reserveHere(n) {
		return true
	}
	if a.above != nil {
		a.above.Release(n * p.weight)
	}
	p.refused.Add(1)
	return false
}

// reserveHere is Reserve in this pool alone. The pool's limit holds at every moment, also while others reserve.
func (a *Account) reserveHere(n int64) bool {
	p, held := a.pool, a.held.Add(n)
	for {
		used := p.used.Load()
		free := p.limit - used - n
		if free < 0 || !p.unshared && held > Share*free {
			a.held.Add(-n)
			return false
		}
		if p.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// Release returns n units.
func (a *Account) Release(n int64) {
	for ; a != nil; a = a.above {
		a.held.Add(-n)
		a.pool.used.Add(-n)
		n *= a.pool.weight
	}
}
