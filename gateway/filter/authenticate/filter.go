package authenticate

import (
	"context"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
)

// Inherited is the principal of the HTTP request that a front door makes calls for. The front door has authenticated
// it; its calls are not authenticated again.
type Inherited struct {
	Identity tenant.Identity
	// rejection of the credential, with which the call is rejected; nil means Identity is valid
	Refusal   *call.Refusal
	Signature string // of a signed URL, which the call checks; empty means none
}

// State is the state of a lookup.
type State struct {
	Inherited *Inherited         // of a front door's call; nil means the headers have the credential
	quit      context.CancelFunc // cancels the lookup; nil means none
	found     *found             // result of the lookup; nil means none yet
}

// found is the result of a lookup.
type found struct {
	identity tenant.Identity
	refusal  *call.Refusal
}

// Config configures a Filter. Callers is required.
type Config struct {
	Callers *Callers
	// Metrics counts calls by tenant, of which last is an earlier result or nil; optional.
	Metrics func(last *telemetry.TenantMetrics, tenant string) *telemetry.TenantMetrics
	// Authenticated is called for a connection with a valid credential; optional.
	Authenticated func(*relay.Peer)
	// Proof returns the proof of a connection; optional. It is called with the shard of the connection locked.
	Proof func(*relay.Peer) *tenant.Proof
}

// Filter authenticates callers.
type Filter struct{ cfg Config }

// New returns a Filter.
func New(cfg Config) Filter { return Filter{cfg} }

// Admit implements filter.Filter.
func (f Filter) Admit(t *filter.Call, s *State) filter.Step {
	if s.found != nil {
		s.end()
		return f.is(t, s.found.identity, s.found.refusal)
	}
	var identity tenant.Identity
	claim, refusal := f.cfg.Callers.Credentials(t.Stream, t.Client.At, t.Details.Peer)
	if a := s.Inherited; a != nil {
		if a.Signature == "" {
			return f.is(t, a.Identity, a.Refusal)
		}
		claim, refusal = tenant.Credentials{Signature: a.Signature, At: t.Client.At}, nil
	}
	if refusal == nil {
		if s.Inherited == nil && claim.Credential != "" && f.cfg.Proof != nil {
			claim.Proof = f.cfg.Proof(t.Stream.Peer())
		}
		var known bool
		if identity, known, refusal = f.cfg.Callers.Lookup(claim); !known {
			if refusal = f.ask(t, s, claim); refusal == nil {
				return filter.Wait
			}
		}
	}
	return f.is(t, identity, refusal)
}

// ask makes the call wait for authentication.
func (f Filter) ask(t *filter.Call, s *State, claim tenant.Credentials) *call.Refusal {
	var ctx context.Context
	ctx, s.quit = context.WithCancel(f.cfg.Callers.closing)
	refusal := f.cfg.Callers.ask(ctx, t, s, claim)
	if refusal != nil {
		s.end()
	}
	return refusal
}

// is sets the caller. A rejected call is recorded with it too.
func (f Filter) is(t *filter.Call, identity tenant.Identity, refusal *call.Refusal) filter.Step {
	t.Credential = filter.Credential{
		Scopes: identity.Scopes, Asserts: identity.Asserts, Operator: identity.Operator, Person: identity.Person,
		Subject: identity.Subject, Validity: identity.Validity, Only: identity.Only,
	}
	t.Principal.Settings = identity.Settings
	t.Info.Tenant, t.Info.Key = identity.Tenant, identity.Key
	t.Info.User, t.Info.Agent = t.Keep(identity.User), t.Keep(identity.Agent)
	if f.cfg.Metrics != nil {
		t.Principal.Metrics = f.metrics(identity.Settings, identity.Tenant)
	}
	if refusal == nil && f.cfg.Authenticated != nil {
		f.cfg.Authenticated(t.Stream.Peer())
	}
	return t.ContinueUnless(refusal)
}

// metrics returns the metrics of a tenant, to which its settings lead after the first call.
func (f Filter) metrics(settings *tenant.Settings, id string) *telemetry.TenantMetrics {
	if settings == nil {
		return f.cfg.Metrics(nil, id)
	}
	last, _ := settings.Slots.Metrics.Load().(*telemetry.TenantMetrics)
	found := f.cfg.Metrics(last, id)
	if found != last {
		settings.Slots.Metrics.Store(found)
	}
	return found
}

// Done implements filter.Filter.
func (Filter) Done(_ *filter.Call, s *State, _ *filter.Result) { s.end() }

// end cancels the lookup.
func (s *State) end() {
	if s.quit != nil {
		s.quit()
		s.quit = nil
	}
}

// Self makes the gateway itself the caller.
func Self(t *filter.Call) { t.Info.Tenant, t.Own = tenant.Default, true }
