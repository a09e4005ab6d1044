package guard

import (
	"net/http"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
)

// Tenants authenticates operators by the credentials of tenants: their API keys, tokens and client certificates. Their
// scopes correspond to roles for that tenant.
type Tenants struct{ by *tenant.Authenticators }

// NewTenants returns an authenticator for the credentials of tenants.
func NewTenants(by *tenant.Authenticators) *Tenants { return &Tenants{by} }

// Authenticate implements Authenticator.
func (t *Tenants) Authenticate(r *http.Request) (*operator.Identity, bool, *call.Refusal) {
	text, present := Credential(r)
	claim := tenant.Credentials{Credential: text}
	switch {
	case present && text == "":
		return nil, true, refusedEmpty
	case !present:
		if claim.Peer = peerOf(r); claim.Peer == nil || !t.by.Certificates.Names(claim.Peer) {
			return nil, false, nil
		}
	}
	identity, known, refusal := t.by.Lookup(claim)
	if !known {
		ctx, cancel := withPatience(r)
		defer cancel()
		identity, refusal = t.by.Authenticate(ctx, claim)
	}
	if refusal != nil {
		return nil, true, refusal
	}
	return t.operatorOf(&identity, claim), true, nil
}

// operatorOf returns the operator for a tenant's credential.
func (t *Tenants) operatorOf(identity *tenant.Identity, claim tenant.Credentials) *operator.Identity {
	o := &operator.Identity{User: identity.User}
	o.Grant(identity.Tenant, RolesOf(identity.Scopes))
	_, _, isKey := tenant.ParseCredential(claim.Credential)
	switch {
	case claim.Peer != nil:
		o.Name, o.Via = "certificate "+identity.Key, operator.ViaCertificate
	case isKey:
		o.Name, o.Via, o.Key = tenant.KeyLabel(identity.Key, t.by.KeyName(identity.Key)), operator.ViaKey, identity.Key
	default:
		o.Name, o.Via, o.Issuer = identity.User+", issuer "+identity.Key, operator.ViaToken, identity.Key
	}
	return o
}

// RolesOf returns the roles that correspond to scopes.
func RolesOf(scopes tenant.Scopes) (roles operator.Roles) {
	for _, one := range []struct {
		scope tenant.Scopes
		role  operator.Roles
	}{
		{tenant.RoleViewer, operator.View}, {tenant.RoleOperator, operator.Operate},
		{tenant.RoleApprover, operator.Approve}, {tenant.RoleAdmin, operator.Admin},
	} {
		if scopes&one.scope != 0 {
			roles |= one.role
		}
	}
	return roles
}
