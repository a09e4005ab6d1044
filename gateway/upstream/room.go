package upstream

import (
	"sync/atomic"

	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
)

// Room is the memory for callers' sessions, at all backends. The zero value has no bound.
type Room struct{ of atomic.Pointer[charging] }

type charging struct {
	pool   *fairshare.Pool
	status func(*call.Refusal) *status.Status
}

// Charge charges the sessions of tenants to a pool, by their UIDs. status encodes the refusal of a call whose tenant
// has no room for another one.
func (r *Room) Charge(pool *fairshare.Pool, status func(*call.Refusal) *status.Status) {
	r.of.Store(&charging{pool, status})
}

// Of returns the account of a tenant; nil: it has no bound.
func (r *Room) Of(tenant string) *fairshare.Account {
	c := r.of.Load()
	if c == nil {
		return nil
	}
	return c.pool.Of(tenant)
}

// Full returns the error of a call whose tenant has no room. It must have an account.
func (r *Room) Full(refusal *call.Refusal) error { return r.of.Load().status(refusal).Err() }
