package gateway

import (
	"context"
	"strings"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/observe/tracing"
	"github.com/capgate/capgate/internal/tenant"
)

// identify finds out who calls, and goes on in identified: at once where that is known.
func (h *handler) identify(s *relay.Stream, t *transit) {
	who, refusal, inside := h.fromInside(s, t)
	if !inside || t.ours && t.before == nil {
		h.trace(s, t)
	}
	if inside {
		h.admit(s, t, who, refusal)
		return
	}
	if refusal = h.strange(s); refusal != nil {
		h.admit(s, t, tenant.Identity{}, refusal)
		return
	}
	claim, refusal := claimOf(s, h.callers.credentials, t.origin.peer)
	switch {
	case t.own && isOpen(t.call.Path):
		who, refusal = tenant.Identity{Tenant: tenant.Default, Scopes: tenant.Read}, nil
		var fits bool
		if t.opening, fits = h.openings.begin(s.Peer(), t.origin.client); !fits {
			refusal = refusedOpen
		}
	case refusal == nil:
		var known bool
		if who, known, refusal = h.callers.Identify(claim); known {
			if refusal == nil {
				h.authenticated(s.Peer())
			}
			break
		}
		var ctx context.Context
		ctx, t.quit = context.WithCancel(h.callers.closing)
		refusal = h.callers.ask(ctx, s, claim, func(s *relay.Stream, who tenant.Identity, refusal *call.Refusal) {
			t := transitOf(s)
			t.quit()
			t.quit = nil
			t.span.GoOn(tracing.ForIdentity)
			if refusal == nil {
				h.authenticated(s.Peer())
			}
			h.admit(s, t, who, refusal)
		})
		if refusal == nil {
			t.span.Wait(tracing.ForIdentity)
			return
		}
	}
	h.admit(s, t, who, refusal)
}

// fromInside knows the gateway's own calls, and those that the translator brings back.
func (h *handler) fromInside(s *relay.Stream, t *transit) (who tenant.Identity, refusal *call.Refusal, inside bool) {
	ticket, ok := s.Header(ticketHeader)
	if !ok {
		return tenant.Identity{}, nil, false
	}
	s.DropHeader(ticketHeader)
	if t.ours = ticket == h.crossings.ours; t.ours {
		return tenant.Identity{Tenant: tenant.Default, Scopes: tenant.Invoke}, nil, true
	}
	if h.crossings.comesBack(ticket) {
		who, refusal = h.comeBack(t, ticket)
		return who, refusal, true
	}
	return tenant.Identity{}, nil, false
}

// admit goes on with a call whose caller is known, if it may make it.
func (h *handler) admit(s *relay.Stream, t *transit, who tenant.Identity, refusal *call.Refusal) {
	switch {
	case refusal != nil:
	case who.Only != nil && t.call.Method != call.DownloadOutputArtifact:
		refusal = tenant.RefuseSignature()
	case !t.ours && t.before == nil:
		refusal = t.scoped(who.Scopes)
	}
	t.settings, t.asserts, t.only = who.Settings, who.Asserts, who.Only
	t.call.Tenant, t.call.Key, t.call.User, t.call.Agent = who.Tenant, who.Key, t.keep(who.User), t.keep(who.Agent)
	if !t.own && !t.ours {
		t.tenant = h.metrics.Tenant(who.Tenant)
	}
	if t.own && refusal == nil {
		s.SetHeader(tenant.Metadata, who.Text())
	}
	h.identified(s, t, refusal)
}

// nameUser believes a message that says on whose behalf its caller calls as far as a header
// is believed that says so.
func (t *transit) nameUser(s *relay.Stream, user string) *call.Refusal {
	if user == "" || t.asserts&tenant.User == 0 {
		return nil
	}
	if said, _ := s.Header(userHeader); said != "" && said != user {
		return refusedTwoIdentities
	}
	_, refusal := tenant.Identity{}.Say(tenant.Claim{User: user}, tenant.User)
	if refusal == nil {
		t.call.User = t.keep(user)
	}
	return refusal
}

// isOpen tells the own services that need no credential. Load balancers have none, and
// what is told is in the published protos.
func isOpen(path string) bool { return !strings.HasPrefix(path, "/capgate.v1.") }

// scoped refuses whom the call needs another scope of.
func (t *transit) scoped(have tenant.Scopes) *call.Refusal {
	switch {
	case t.engine != nil:
		if !have.Any(t.engine.Scope) {
			return missing(t.engine.Scope, "the credential is not one that may call this method of engines")
		}
	case !t.own && !have.Any(tenant.Invoke):
		return refusedInvoking
	case t.own && strings.HasPrefix(t.call.Path, "/capgate.v1.Artifacts/"):
		if !have.Any(tenant.Invoke) { // as a download
			return refusedInvoking
		}
	case t.own && strings.HasPrefix(t.call.Path, "/capgate.v1.Approvals/"):
		if !have.Any(tenant.Read | tenant.Approve) { // who answers is looked at there
			if strings.HasSuffix(t.call.Path, "/Approve") || strings.HasSuffix(t.call.Path, "/Deny") {
				return refusedAnswering
			}
			return refusedReading
		}
	case t.own && strings.HasPrefix(t.call.Path, "/capgate.v1.Tenants/"):
		if !have.Any(tenant.Admin) {
			return refusedAdministering
		}
	case t.own && !have.Any(tenant.Read):
		return refusedReading
	}
	return nil
}

var (
	refusedInvoking  = missing(tenant.Invoke, "the credential is not one that may call capabilities")
	refusedReading   = missing(tenant.Read, "the credential is not one that may list what there is")
	refusedAnswering = missing(tenant.Approve, "the credential is not one that may answer approvals")

	refusedAdministering = missing(tenant.Admin, "the credential is not one that may see its tenant and that one's keys")
)

func missing(scope tenant.Scopes, message string) *call.Refusal {
	return &call.Refusal{Kind: call.PermissionDenied, Reason: "SCOPE_MISSING", Message: message, Metadata: map[string]string{"scope": scope.String()}}
}
