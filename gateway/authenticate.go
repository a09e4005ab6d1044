package gateway

import (
	"context"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// authState is what is known of a caller besides its name.
type authState struct {
	scopes  tenant.Scopes
	asserts tenant.Asserts     // what the caller may say of itself, also in a message
	only    *tenant.Download   // the one thing that the call may be; nil: anything
	quit    context.CancelFunc // of the lookup; nil: there is none
	found   *found             // by the lookup; nil: there was none
	opening opening            // of a call that needs no credential
}

// found is what a lookup came to.
type found struct {
	who     tenant.Identity
	refusal *call.Refusal
}

// authenticate finds out who calls: by a credential where there are tenants.
type authenticate struct {
	h       *handler
	metered bool // the calls are counted by tenant
}

// Admit implements filter.
func (f authenticate) Admit(t *transit, s *authState) Step {
	if s.found != nil {
		s.end()
		return f.is(t, s, s.found.who, s.found.refusal)
	}
	var who tenant.Identity
	claim, refusal := claimOf(t.stream, f.h.callers.credentials, t.origin.peer)
	if refusal == nil {
		var known bool
		if who, known, refusal = f.h.callers.Identify(claim); !known {
			if refusal = f.ask(t, s, claim); refusal == nil {
				return Wait
			}
		}
	}
	return f.is(t, s, who, refusal)
}

// ask lets the call wait until it is known who makes it.
func (f authenticate) ask(t *transit, s *authState, claim tenant.Claim) *call.Refusal {
	var ctx context.Context
	ctx, s.quit = context.WithCancel(f.h.callers.closing)
	refusal := f.h.callers.ask(ctx, t, f.h.driver, claim)
	if refusal != nil {
		s.end()
	}
	return refusal
}

// is takes note of the caller. A call that is rejected is recorded as that one's, too.
func (f authenticate) is(t *transit, s *authState, who tenant.Identity, refusal *call.Refusal) Step {
	s.scopes, s.asserts, s.only, t.settings = who.Scopes, who.Asserts, who.Only, who.Settings
	t.call.Tenant, t.call.Key, t.call.User, t.call.Agent = who.Tenant, who.Key, t.keep(who.User), t.keep(who.Agent)
	if f.metered {
		t.tenant = f.h.metrics.Tenant(who.Tenant)
	}
	if refusal == nil {
		f.h.authenticated(t.stream.Peer())
	}
	return t.admitUnless(refusal)
}

// Done implements filter.
func (authenticate) Done(_ *transit, s *authState, _ *result) { s.end() }

// end ends the lookup.
func (s *authState) end() {
	if s.quit != nil {
		s.quit()
		s.quit = nil
	}
}

// authenticateSelf is authenticate for what the gateway itself calls.
func authenticateSelf(t *transit) { t.call.Tenant = tenant.Default }
