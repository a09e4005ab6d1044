package bodies

import "github.com/capgate/capgate/internal/fairshare"

// Pool is the memory that bodies may take. It is safe for concurrent use.
type Pool struct{ of *fairshare.Pool }

// NewPool makes one of the bytes of another.
func NewPool(of *fairshare.Pool) *Pool { return &Pool{of} }

// Used is how much of it is held: 1 is all.
func (p *Pool) Used() float64 { return float64(p.of.Used()) / float64(p.of.Limit()) }

// take has a tenant hold n bytes more, if it may.
func (p *Pool) take(tenant string, n int64) bool { return p.of.Of(tenant).Reserve(n) }

func (p *Pool) give(tenant string, n int64) { p.of.Of(tenant).Release(n) }
