package mcp

import (
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/fairshare"
)

// sessionCost is the gateway's memory for a caller's session at a server, in bytes.
const sessionCost = 18 << 10

var refusedSession = &call.Refusal{Kind: call.ResourceExhausted, Reason: "SESSIONS_FULL",
	Message: "the sessions of this tenant at MCP servers fill its share of the memory: use fewer sessions, or wait " +
		"until unused ones have ended"}

// charge reserves the memory of a new session; if necessary, the tenant's least recently used sessions at this server
// end. nil means that the session is not charged. The caller must hold mu.
func (v *server) charge(key sessionKey) (*fairshare.Account, error) {
	if key.isShared() {
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

// free releases the memory of an ended session.
func (s *session) free() {
	if s.held != nil {
		s.held.Release(sessionCost)
	}
}
