// Package approver says which approvals a signed-in person or key may answer, and for which tenants.
package approver

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/tenant"
)

// Approvers are the people of the inbox: those of the configuration's roles, of issuers' claims, and of API keys.
type Approvers struct {
	Authenticators *tenant.Authenticators // nil: the gateway has no tenants
	Directory      *tenant.Directory
	Roster         *tenant.Roster
	People         func() operator.People   // of the configuration
	SignsIn        func(issuer string) bool // reports whether people of an issuer sign in here
}

// Key implements signin.People.
func (a *Approvers) Key(ctx context.Context, key string) (*session.Session, *call.Refusal) {
	id, _, ok := tenant.ParseCredential(key)
	if !ok || a.Authenticators == nil {
		return nil, refusedInboxKey
	}
	c := tenant.Credentials{Credential: key}
	identity, known, refusal := a.Authenticators.Lookup(c)
	if !known {
		identity, refusal = a.Authenticators.Authenticate(ctx, c)
	}
	if refusal != nil {
		return nil, refusal
	}
	return &session.Session{Via: session.ViaKey, Key: id, KeyName: a.Authenticators.KeyName(id),
		Of: identity.Tenant}, nil
}

// Check implements signin.People.
func (a *Approvers) Check(ctx context.Context, s *session.Session) (rights string, refusal *call.Refusal) {
	identity, refusal := a.Identity(ctx, s, "")
	rights = fmt.Sprint(identity.Tenant, identity.Scopes.Names(), a.entriesOf(s).Rights())
	if several := identity.Several(); several != nil {
		for _, of := range several.Tenants {
			rights += " " + of.Settings.ID // enabled tenants only
		}
	}
	return rights, refusal
}

// inboxScopes are the scopes that count at the inbox.
const inboxScopes = tenant.Read | tenant.Approve | tenant.Policy

// Identity returns the caller that the person or key of a session currently is: a key with the scope approve, a person
// whose claims gave a tenant and that scope, or a person with the role approver. A request names one tenant; "" and
// tenant.All stand for all tenants for which the person may answer.
func (a *Approvers) Identity(ctx context.Context, s *session.Session, named string) (identity tenant.Identity,
	refusal *call.Refusal) {
	if s.Via == session.ViaKey {
		if a.Authenticators == nil {
			return identity, session.Refused()
		}
		if identity, refusal = a.Authenticators.Holder(ctx, s.Key); refusal != nil {
			return identity, refusal
		}
	} else if identity, refusal = a.person(ctx, s, named); refusal != nil {
		return identity, refusal
	}
	if !identity.Scopes.Any(tenant.Approve) {
		return tenant.Identity{}, refusedApprover
	}
	if named != "" && named != tenant.All && named != identity.Tenant {
		return tenant.Identity{}, refusedTenant(named, []string{identity.Tenant}, 0)
	}
	identity.Scopes = identity.Scopes&inboxScopes | tenant.Read
	return identity, nil
}

// entriesOf returns the roles of a session's person by the configuration.
func (a *Approvers) entriesOf(s *session.Session) *operator.Identity {
	identity := &operator.Identity{}
	if s.Via == session.ViaPerson {
		a.People().Grant(identity, s.Issuer, s.User, s.Groups)
	}
	return identity
}

// person returns the caller that a person is, for one tenant or for several.
func (a *Approvers) person(ctx context.Context, s *session.Session, named string) (identity tenant.Identity,
	refusal *call.Refusal) {
	if s.Via != session.ViaPerson || !a.SignsIn(s.Issuer) {
		return identity, session.Refused()
	}
	g := a.grantsOf(s)
	identity = tenant.Identity{User: s.User, Key: s.Issuer, Scopes: g.union(),
		Person: tenant.NewPerson(s.Issuer, s.Groups)}
	switch tenants := slices.Sorted(maps.Keys(g.of)); {
	case a.Authenticators == nil:
		identity.Tenant = tenant.Default
		return identity, nil
	case identity.Scopes == 0:
		return identity, refusedApprover
	case named != "" && named != tenant.All:
		if identity.Tenant, identity.Scopes = named, g.all|g.of[named]; identity.Scopes == 0 {
			return identity, refusedTenant(named, tenants, g.all)
		}
		if refusal = a.settle(ctx, &identity); refusal == nil && identity.Settings == nil {
			refusal = refusedTenant(named, tenants, g.all)
		}
	case g.all == 0 && len(tenants) == 1:
		identity.Tenant = tenants[0]
		if refusal = a.settle(ctx, &identity); refusal == nil && identity.Settings == nil {
			refusal = session.Refused()
		}
	default:
		refusal = a.several(ctx, &identity, g, tenants, s.Tenant)
	}
	if refusal != nil {
		return identity, refusal
	}
	return identity.Assert(tenant.Credentials{}, 0) // refused if the tenant is disabled
}

// settle reads the settings of an identity's tenant; nil: there is no such tenant.
func (a *Approvers) settle(ctx context.Context, identity *tenant.Identity) (refusal *call.Refusal) {
	identity.Settings, refusal = a.Directory.Settings(ctx, identity.Tenant)
	return refusal
}

// several completes the identity of a person that answers for several tenants: the existing and enabled ones. The
// memory of its requests is charged to its own tenant, or to the first one.
func (a *Approvers) several(ctx context.Context, identity *tenant.Identity, g grants, tenants []string,
	own string) *call.Refusal {
	answers := &tenant.Approver{All: g.all}
	for _, id := range tenants {
		settings, refusal := a.Directory.Settings(ctx, id)
		if refusal != nil {
			return refusal
		}
		if settings != nil && !settings.Disabled {
			answers.Tenants = append(answers.Tenants, tenant.ApproverOf{Settings: settings, Scopes: g.all | g.of[id]})
		}
	}
	identity.Person.Approver = answers
	for i := range answers.Tenants {
		if s := answers.Tenants[i].Settings; i == 0 || s.ID == own {
			identity.Tenant, identity.Settings = s.ID, s
		}
	}
	switch {
	case identity.Tenant != "":
	case g.all == 0:
		return refusedApprover
	default:
		ids, _, err := a.Roster.Page(ctx, "", 1)
		if err != nil || len(ids) == 0 {
			return refusedApprover
		}
		identity.Tenant = ids[0]
	}
	return nil
}

// grants are the scopes with which a person answers approvals.
type grants struct {
	all tenant.Scopes            // for all tenants
	of  map[string]tenant.Scopes // for one tenant each
}

// union returns the scopes for any tenant.
func (g grants) union() tenant.Scopes {
	scopes := g.all
	for _, of := range g.of {
		scopes |= of
	}
	return scopes
}

// grantsOf returns what the roles of a session's person permit, and what its claims gave for their tenant.
func (a *Approvers) grantsOf(s *session.Session) grants {
	granted := a.entriesOf(s)
	g := grants{all: scopesOf(granted.Roles), of: map[string]tenant.Scopes{}}
	for _, t := range granted.Tenants {
		if scopes := scopesOf(t.Roles | granted.Roles); scopes != 0 {
			g.of[t.Tenant] = scopes
		}
	}
	var claims tenant.Scopes
	for _, name := range s.Scopes {
		one, _ := tenant.ParseScope(name)
		claims |= one
	}
	if s.Tenant != "" && claims.Any(tenant.Approve) {
		g.of[s.Tenant] |= claims
	}
	return g
}

// scopesOf returns the scopes that roles give at the inbox; 0 without the role approver.
func scopesOf(roles operator.Roles) (scopes tenant.Scopes) {
	if roles.Include(operator.Approve) {
		scopes |= tenant.Approve
	}
	if roles.Include(operator.Admin) {
		scopes |= tenant.Policy
	}
	return scopes
}

var (
	refusedInboxKey = &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_INVALID",
		Message: "the API key is unknown, revoked or wrong"}
	refusedApprover = &call.Refusal{Kind: call.PermissionDenied, Reason: "APPROVER_REQUIRED",
		Message: "you may not answer approvals: that needs a tenant and the scope approve, or the role approver"}
)

// maxNamedTenants bounds the tenants that a refusal names.
const maxNamedTenants = 10

// refusedTenant refuses a request for a tenant that is not among a person's, whether or not there is such a tenant.
func refusedTenant(named string, tenants []string, all tenant.Scopes) *call.Refusal {
	text := "the tenant does not exist"
	if all == 0 {
		text = "you may answer those of " + strings.Join(tenants[:min(len(tenants), maxNamedTenants)], ", ")
		if len(tenants) > maxNamedTenants {
			text += " and others"
		}
	}
	return &call.Refusal{Kind: call.PermissionDenied, Reason: "APPROVER_REQUIRED",
		Message: "you may not answer approvals of the tenant " + call.Quote(named) + ": " + text}
}
