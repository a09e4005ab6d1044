package ratelimit

import "sync/atomic"

// permitPool is a counter of leased calls or permits. It is striped, so that concurrent goroutines do not contend:
// each takes from its own stripe, which is refilled from the pool.
type permitPool struct {
	pool    atomic.Int64
	low     atomic.Int64 // level at which the pool must be refilled
	stripes []stripe     // a power of two
}

// stripe fills a cache line.
type stripe struct {
	n atomic.Int64
	_ [56]byte
}

func newPermitPool(stripes int) permitPool { return permitPool{stripes: make([]stripe, stripes)} }

// take takes one, if there is one. low reports that the pool must be refilled.
func (p *permitPool) take(shard uint32) (ok, low bool) {
	s := &p.stripes[int(shard)&(len(p.stripes)-1)]
	for {
		n := s.n.Load()
		if n <= 0 {
			return p.fetch(s)
		}
		if s.n.CompareAndSwap(n, n-1) {
			return true, false
		}
	}
}

// fetch takes one from the pool, and more for the stripe, or one from another stripe.
func (p *permitPool) fetch(s *stripe) (ok, low bool) {
	for {
		n := p.pool.Load()
		if n <= 0 {
			break
		}
		some := max(n/int64(2*len(p.stripes)+2), 1)
		if p.pool.CompareAndSwap(n, n-some) {
			s.n.Add(some - 1)
			return true, n-some <= p.low.Load()
		}
	}
	for i := range p.stripes {
		if takeSome(&p.stripes[i].n, 1) == 1 {
			return true, true
		}
	}
	return false, true
}

// put returns one.
func (p *permitPool) put(shard uint32) { p.stripes[int(shard)&(len(p.stripes)-1)].n.Add(1) }

// add adds n, and sets low to half of the total.
func (p *permitPool) add(n int64) {
	p.pool.Add(n)
	p.low.Store(p.left() / 2)
}

// left returns the total. It is approximate during concurrent use.
func (p *permitPool) left() int64 {
	n := p.pool.Load()
	for i := range p.stripes {
		n += p.stripes[i].n.Load()
	}
	return n
}

// drain takes n, or all if there are fewer.
func (p *permitPool) drain(n int64) int64 {
	got := takeSome(&p.pool, n)
	for i := range p.stripes {
		got += takeSome(&p.stripes[i].n, n-got)
	}
	return got
}

// takeSome takes up to n.
func takeSome(from *atomic.Int64, n int64) int64 {
	for {
		have := from.Load()
		some := min(have, n)
		if some <= 0 {
			return 0
		}
		if from.CompareAndSwap(have, have-some) {
			return some
		}
	}
}
