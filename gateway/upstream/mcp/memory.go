package mcp

import (
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
)

// sessionCost is the memory that a caller's session at a server takes in the gateway, in bytes.
const sessionCost = 18 << 10

var refusedSession = &call.Refusal{Kind: call.ResourceExhausted, Reason: "SESSIONS_FULL",
	Message: "the sessions of this tenant at MCP servers fill its share of the memory: use fewer sessions, or wait " +
		"until unused ones have ended"}

// charge takes the memory of a new session; the tenant's longest unused ones at this server end for it. The caller
// holds mu. nil means it is not charged.
func (v *server) charge(key sessionKey) (*fairshare.Account, error) {
	if key == (sessionKey{}) {
		return nil, nil
	}
	account := v.all.Room.Of(key.tenant)
	if account == nil {
		return nil, nil
	}
	for !account.Reserve(sessionCost) {
		if !v.removeOldest(key.tenant) {
			return nil, status.Error(refusedSession, call.NotSent)
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
