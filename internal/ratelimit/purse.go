package ratelimit

import "sync/atomic"

// purse holds what calls take one by one. It is spread so that goroutines that take at
// the same time do not meet: each takes from its own stripe, and moves some there from the pool
// when that is empty.
type purse struct {
	pool    atomic.Int64
	low     atomic.Int64 // a pool with no more than this is to be filled
	stripes []stripe     // a power of two
}

// stripe fills a cache line.
type stripe struct {
	n atomic.Int64
	_ [56]byte
}

func newPurse(stripes int) purse { return purse{stripes: make([]stripe, stripes)} }

// take takes one, if there is one. low says that it is time to get more.
func (p *purse) take(shard uint32) (ok, low bool) {
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

// fetch takes one from the pool, and some more for the stripe, or one from another stripe.
func (p *purse) fetch(s *stripe) (ok, low bool) {
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

// put gives one back.
func (p *purse) put(shard uint32) { p.stripes[int(shard)&(len(p.stripes)-1)].n.Add(1) }

// add adds n, and asks to be told when half of all is gone.
func (p *purse) add(n int64) {
	p.pool.Add(n)
	p.low.Store(p.left() / 2)
}

// left is what there is. While others take and put it is a little more or less.
func (p *purse) left() int64 {
	n := p.pool.Load()
	for i := range p.stripes {
		n += p.stripes[i].n.Load()
	}
	return n
}

// drain takes out n, or as many as there are.
func (p *purse) drain(n int64) int64 {
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
