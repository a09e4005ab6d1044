package upstream

import (
	"sync/atomic"

	"github.com/capgate/capgate/internal/lib/fairshare"
)

// Room is the memory for callers' sessions at all backends. The zero value has no limit.
type Room struct {
	of atomic.Pointer[fairshare.Pool]
}

// Charge charges the sessions of tenants to a pool, by their UIDs.
func (r *Room) Charge(pool *fairshare.Pool) { r.of.Store(pool) }

// Of returns the account of a tenant; nil means no limit.
func (r *Room) Of(tenant string) *fairshare.Account {
	if pool := r.of.Load(); pool != nil {
		return pool.Of(tenant)
	}
	return nil
}
