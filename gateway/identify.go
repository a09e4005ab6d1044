package gateway

import (
	"strings"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// Identifier says who calls. It must not block: it runs on a connection's reader. User and
// Agent may be parts of the stream's headers, Tenant and Key may not. What was a credential
// it drops from the stream.
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

// identify finds out who calls and whether they may, and sees to it that nobody is told so
// by the caller.
func (h *handler) identify(s *relay.Stream, t *transit) *call.Refusal {
	who, refusal := h.callerOf(s, t)
	t.call.Tenant, t.call.Key, t.call.User, t.call.Agent = who.Tenant, who.Key, t.keep(who.User), t.keep(who.Agent)
	for _, name := range [...]string{tenantHeader, userHeader, agentHeader, tenant.Metadata, approvalHeader, waitHeader} {
		if _, ok := s.Header(name); ok {
			s.DropHeader(name)
		}
	}
	if t.own && refusal == nil {
		s.SetHeader(tenant.Metadata, who.Text())
	}
	return refusal
}

// callerOf asks for credentials where they are needed. The gateway's own calls, and those
// that the translator brings back, come from the gateway.
func (h *handler) callerOf(s *relay.Stream, t *transit) (tenant.Identity, *call.Refusal) {
	if ticket, ok := s.Header(ticketHeader); ok {
		s.DropHeader(ticketHeader)
		if t.ours = ticket == h.crossings.ours; t.ours {
			return tenant.Identity{Tenant: tenant.Default}, nil
		}
		if h.crossings.comesBack(ticket) {
			return h.comeBack(t, ticket)
		}
	}
	who, refusal := h.identifier.Identify(s)
	if t.own && isOpen(t.call.Path) {
		return tenant.Identity{Tenant: tenant.Default}, nil
	}
	if refusal == nil {
		refusal = t.scoped(who.Scopes)
	}
	return who, refusal
}

// isOpen tells the own services that need no credential. Load balancers have none, and
// what is told is in the published protos.
func isOpen(path string) bool { return !strings.HasPrefix(path, "/capgate.v1.") }

// scoped refuses whom the call needs another scope of.
func (t *transit) scoped(have tenant.Scopes) *call.Refusal {
	switch {
	case !t.own && !have.Any(tenant.Invoke):
		return refusedInvoking
	case t.own && strings.HasPrefix(t.call.Path, "/capgate.v1.Approvals/"):
		if !have.Any(tenant.Read | tenant.Approve) { // who answers is looked at there
			return refusedReading
		}
	case t.own && !have.Any(tenant.Read):
		return refusedReading
	}
	return nil
}

var (
	refusedInvoking = missing(tenant.Invoke, "the API key is not one that may call capabilities")
	refusedReading  = missing(tenant.Read, "the API key is not one that may list what there is")
)

func missing(scope tenant.Scopes, message string) *call.Refusal {
	return &call.Refusal{Kind: call.PermissionDenied, Reason: "SCOPE_MISSING", Message: message, Metadata: map[string]string{"scope": scope.String()}}
}
