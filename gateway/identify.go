package gateway

import (
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Identifier says who calls. It must not block: it runs on a connection's reader. User and
// Agent may be parts of the stream's headers, Tenant may not.
type Identifier interface {
	Identify(*relay.Stream) (tenant.Identity, *call.Refusal)
}

// Metadata in which a caller says who it is. Whatever becomes of it, it goes no further.
const (
	tenantHeader = "x-tenant-id"
	userHeader   = "x-user-id"
	agentHeader  = "x-agent-id"
)

// Single identifies callers by tenant.Single.
type Single struct{ tenancy tenant.Single }

// Identify implements Identifier.
func (i Single) Identify(s *relay.Stream) (tenant.Identity, *call.Refusal) {
	if s.Contradicts(userHeader) || s.Contradicts(agentHeader) {
		return tenant.Identity{Tenant: tenant.Default}, refusedTwoIdentities
	}
	user, _ := s.Header(userHeader)
	agent, _ := s.Header(agentHeader)
	return i.tenancy.Identify(user, agent)
}

// identify finds out who calls, and sees to it that nobody is told so by the caller.
func (h *handler) identify(s *relay.Stream, t *transit) *call.Refusal {
	who, refusal := h.identifier.Identify(s)
	t.call.Tenant, t.call.User, t.call.Agent = who.Tenant, t.keep(who.User), t.keep(who.Agent)
	for _, name := range [...]string{tenantHeader, userHeader, agentHeader, tenant.Metadata, approvalHeader, waitHeader} {
		if _, ok := s.Header(name); ok {
			s.DropHeader(name)
		}
	}
	if t.own {
		s.SetHeader(tenant.Metadata, who.Text())
	}
	if ticket, ok := s.Header(ticketHeader); ok {
		s.DropHeader(ticketHeader)
		if t.ours = ticket == h.crossings.ours; t.ours {
			return refusal
		}
		if back := h.comeBack(t, ticket); refusal == nil {
			refusal = back
		}
	}
	return refusal
}
