package mcp

import (
	"sync/atomic"

	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
)

// sessionCost is the memory that a caller's session at a server takes in the gateway, in bytes.
const sessionCost = 18 << 10

// room is the memory for callers' sessions, at all servers. The zero value has no bound.
type room struct{ of atomic.Pointer[charging] }

type charging struct {
	pool   *fairshare.Pool
	status func(*call.Refusal) *status.Status
}

// Charge charges the sessions of tenants to a pool, by their UIDs. status encodes the refusal of a call whose tenant
// has no room for another one.
func (s *Servers) Charge(pool *fairshare.Pool, status func(*call.Refusal) *status.Status) {
	s.room.of.Store(&charging{pool, status})
}

var refusedSession = &call.Refusal{Kind: call.ResourceExhausted, Reason: "SESSIONS_FULL",
	Message: "the sessions of this tenant at MCP servers fill its share of the memory: use fewer sessions, or wait until " +
		"unused ones have ended"}

// charge takes the memory of a new session; the tenant's longest unused ones at this server end for it. The caller
// holds mu. nil: it is not charged.
func (v *server) charge(key sessionKey) (*fairshare.Account, error) {
	c := v.room.of.Load()
	if c == nil || key == (sessionKey{}) {
		return nil, nil
	}
	account := c.pool.Of(key.tenant)
	for !account.Reserve(sessionCost) {
		if !v.removeOldest(key.tenant) {
			return nil, c.status(refusedSession).Err()
		}
	}
	return account, nil
}

// free returns the memory of a session that has ended.
func (s *session) free() {
	if s.held != nil {
		s.held.Release(sessionCost)
	}
}
