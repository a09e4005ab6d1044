package bodies

import "sync"

// reserve is how many times what is free one tenant may hold.
const reserve = 4

// Pool is the memory that bodies may take. It is safe for concurrent use.
type Pool struct {
	most int64 // bytes

	mu    sync.Mutex
	taken int64
	of    map[string]int64 // by tenant
}

// NewPool makes one of so many bytes.
func NewPool(most int64) *Pool { return &Pool{most: most, of: map[string]int64{}} }

// Used is how much of it is held: 1 is all.
func (p *Pool) Used() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return float64(p.taken) / float64(p.most)
}

// take has a tenant hold n bytes more, if it may.
func (p *Pool) take(tenant string, n int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of[tenant]+n > reserve*(p.most-p.taken-n) {
		return false
	}
	p.of[tenant] += n
	p.taken += n
	return true
}

func (p *Pool) give(tenant string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken -= n
	if p.of[tenant] -= n; p.of[tenant] == 0 {
		delete(p.of, tenant)
	}
}
