package tenant

import (
	"context"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Listener holds what is fixed for all calls at one address. Empty fields fix nothing. It is immutable.
type Listener struct {
	Name string `yaml:"-"` // its address, for records
	// Capability of all its calls, which need no routing key. Default none.
	Capability string `yaml:"capability" kind:"capability"`
	// Tenant of its callers, which need no credential. Default none, and callers need a credential if there are
	// tenants.
	Tenant string `yaml:"tenant" kind:"tenant"`
	// User on whose behalf all its calls are made. Default none.
	User string `yaml:"user" kind:"identifier"`
	// Agent that makes all its calls. Default none.
	Agent string `yaml:"agent" kind:"identifier"`
	// Session of all its calls. Default none.
	Session string `yaml:"session" kind:"identifier"`
	// The only dialect of its calls. auto: any.
	Dialect call.Dialect `yaml:"dialect" default:"auto"`
	// Scopes of callers without a credential. If they are given, a credential has no others here.
	Scopes  Scopes `yaml:"scopes"`
	Limited bool   `yaml:"-"` // Scopes are given
	// Names that callers without a credential may assert with x-user-id and x-agent-id. Default none.
	Asserts Asserts `yaml:"asserts"`
	// approval_wait of its calls. Default that of their fleet.
	ApprovalWait *time.Duration `yaml:"approval_wait" min:"0" max:"10m"`
}

// Check checks fields that depend on each other, and sets the default of Scopes.
func (l *Listener) Check(at strictyaml.At) {
	for _, one := range []struct {
		name string
		is   string
		bit  Asserts
	}{{"user", l.User, User}, {"agent", l.Agent, Agent}} {
		if one.is != "" && l.Asserts&one.bit != 0 {
			at.Fail("asserts", "%s is set, too, for all calls; set only one of them", one.name)
		}
	}
	if l.Limited = at.Has("scopes"); !l.Limited {
		l.Scopes = ListenerScopes
	} else if l.Scopes == 0 {
		at.Fail("scopes", "is empty; leave it out for the default, or name scopes: %s", AllScopes)
	}
}

// ListenerScopes are the scopes of callers without a credential, unless a Listener has others.
const ListenerScopes = Invoke | Read | EngineChat | EngineAgent | EngineSubAgent | EngineShield

// takes reports whether calls of a capability may come in. A nil Listener is the public port.
func (l *Listener) takes(capability string) bool {
	return l == nil || l.Capability == "" || l.Capability == capability
}

// Anonymous reports whether callers need no credential in a gateway with tenants.
func (l *Listener) Anonymous() bool { return l != nil && l.Tenant != "" }

// anonymous returns the identity of a caller without a credential. The settings are those of the listener's tenant;
// nil: there is no such tenant.
func (l *Listener) anonymous(of *Settings, c Credentials) (Identity, *call.Refusal) {
	if of == nil {
		return Identity{}, refusedListenerTenant
	}
	identity := Identity{Tenant: l.Tenant, Scopes: l.Scopes, Settings: of}
	return identity.Assert(c, l.Asserts)
}

// Narrow applies the listener to a caller that was authenticated. The refusal says what does not agree.
func (l *Listener) Narrow(identity Identity, c Credentials) (Identity, *call.Refusal) {
	identity.At = l
	var refusal *call.Refusal
	switch {
	case l.Tenant != "" && identity.Tenant != l.Tenant:
		refusal = RefuseAt(TenantPart)
	case differs(l.User, identity.User, c.User):
		refusal = RefuseAt(UserPart)
	case differs(l.Agent, identity.Agent, c.Agent):
		refusal = RefuseAt(AgentPart)
	}
	if refusal != nil {
		return identity.refused(), refusal
	}
	if l.User != "" {
		identity.User, identity.Asserts = l.User, identity.Asserts&^User
	}
	if l.Agent != "" {
		identity.Agent, identity.Asserts = l.Agent, identity.Asserts&^Agent
	}
	if l.Limited || identity.Settings == nil { // without tenants no caller has a credential
		identity.Scopes &= l.Scopes
	}
	return identity, nil
}

// differs reports whether a caller says something else than a listener says of all.
func differs(all string, said ...string) bool {
	for _, s := range said {
		if all != "" && s != "" && s != all {
			return true
		}
	}
	return false
}

// Part is a part of a call that does not agree with its listener.
type Part uint8

// The parts.
const (
	TenantPart Part = iota
	UserPart
	AgentPart
	SessionPart
	DialectPart
)

// RefuseAt returns the refusal of a call with a part that does not match its listener. It repeats neither value.
func RefuseAt(p Part) *call.Refusal { return conflicts[p] }

var conflicts = [...]*call.Refusal{
	TenantPart: conflict("tenant", "of one tenant, and the credential, the signed URL or x-tenant-id names another"),
	UserPart:   conflict("user", "on behalf of one user, and the credential, x-user-id or the message names another"),
	AgentPart:  conflict("agent", "of one agent, and the credential or x-agent-id names another"),
	SessionPart: conflict("session",
		"of one session, and the message, x-session-id or the signed URL names another"),
	DialectPart: conflictOf("dialect",
		"in one dialect, and this call is in another, or in none; the JSON API and capgate "+
			"invoke use the doc dialect: use the dialect of the listener, or call the public port"),
}

// conflict returns the refusal of a call that names another value than its listener, and could name none.
func conflict(part, what string) *call.Refusal {
	return conflictOf(part, what+": leave it out, or call the public port")
}

func conflictOf(part, text string) *call.Refusal {
	return &call.Refusal{Kind: call.PermissionDenied, Reason: "LISTENER_CONFLICT",
		Metadata: map[string]string{"field": part}, Message: "all calls at this listener are " + text}
}

var refusedListenerTenant = &call.Refusal{Kind: call.NotFound, Reason: "TENANT_UNKNOWN",
	Message: "the tenant of this listener does not exist; the gateway's configuration names it under listeners"}

// Listeners authenticates callers without a credential, at listeners of tenants.
type Listeners struct{ tenants Tenants }

// NewListeners returns Listeners.
func NewListeners(tenants Tenants) *Listeners { return &Listeners{tenants} }

// Lookup implements Authenticator.
func (l *Listeners) Lookup(c Credentials) (identity Identity, known bool, refusal *call.Refusal) {
	of, known := l.tenants.Lookup(c.At.Tenant)
	if !known {
		return Identity{}, false, nil
	}
	identity, refusal = c.At.anonymous(of, c)
	return identity, true, refusal
}

// Authenticate implements Authenticator.
func (l *Listeners) Authenticate(ctx context.Context, c Credentials) (Identity, *call.Refusal) {
	of, refusal := l.tenants.Settings(ctx, c.At.Tenant)
	if refusal != nil {
		return Identity{}, refusal
	}
	return c.At.anonymous(of, c)
}
