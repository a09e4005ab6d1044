package gateway

import (
	"context"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// authState is what is remembered while it is found out who calls.
type authState struct {
	arrival *arrival           // of a call that a front door makes; nil: the call's own headers say who makes it
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

// Admit implements filter.Filter.
func (f authenticate) Admit(t *filter.Call, s *authState) filter.Step {
	if s.found != nil {
		s.end()
		return f.is(t, s.found.who, s.found.refusal)
	}
	var who tenant.Identity
	claim, refusal := claimOf(t.Stream, f.h.callers.credentials, t.Client.Peer)
	if a := s.arrival; a != nil {
		if a.Signature == "" {
			return f.is(t, a.who, a.refusal)
		}
		claim, refusal = tenant.Credentials{Signature: a.Signature}, nil
	}
	if refusal == nil {
		var known bool
		if who, known, refusal = f.h.callers.Lookup(claim); !known {
			if refusal = f.ask(t, s, claim); refusal == nil {
				return filter.Wait
			}
		}
	}
	return f.is(t, who, refusal)
}

// ask lets the call wait until it is known who makes it.
func (f authenticate) ask(t *filter.Call, s *authState, claim tenant.Credentials) *call.Refusal {
	var ctx context.Context
	ctx, s.quit = context.WithCancel(f.h.callers.closing)
	refusal := f.h.callers.ask(ctx, t, s, claim)
	if refusal != nil {
		s.end()
	}
	return refusal
}

// is takes note of the caller. A call that is rejected is recorded as that one's, too.
func (f authenticate) is(t *filter.Call, who tenant.Identity, refusal *call.Refusal) filter.Step {
	p := &t.Principal
	p.Scopes, p.Asserts, p.Only, p.Settings = who.Scopes, who.Asserts, who.Only, who.Settings
	t.Info.Tenant, t.Info.Key, t.Info.User, t.Info.Agent = who.Tenant, who.Key, t.Keep(who.User), t.Keep(who.Agent)
	if f.metered {
		p.Metrics = f.h.metrics.Tenant(who.Tenant)
	}
	if refusal == nil {
		f.h.authenticated(t.Stream.Peer())
	}
	return t.ContinueUnless(refusal)
}

// Done implements filter.Filter.
func (authenticate) Done(_ *filter.Call, s *authState, _ *filter.Result) { s.end() }

// end ends the lookup.
func (s *authState) end() {
	if s.quit != nil {
		s.quit()
		s.quit = nil
	}
}

// authenticateSelf is authenticate for what the gateway itself calls.
func authenticateSelf(t *filter.Call) { t.Info.Tenant = tenant.Default }
