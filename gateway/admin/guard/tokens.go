package guard

import (
	"context"
	"net/http"
	"sync/atomic"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/session"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/tenant/token"
)

// Verifier verifies the tokens of issuers.
type Verifier interface {
	Operator(ctx context.Context, raw string) (tenant.Identity, *call.Refusal)
}

// Tokens authenticates operators by tokens of issuers, for the people and groups of the configuration. Tokens of other
// people are unknown to it; they may belong to tenants.
type Tokens struct {
	verifier Verifier
	people   atomic.Pointer[operator.People]
}

// NewTokens returns Tokens without people.
func NewTokens(v Verifier) *Tokens {
	t := &Tokens{verifier: v}
	t.Replace(nil)
	return t
}

// Replace replaces the people.
func (t *Tokens) Replace(people operator.People) { t.people.Store(&people) }

// Authenticate implements Authenticator.
func (t *Tokens) Authenticate(r *http.Request) (*operator.Identity, bool, *call.Refusal) {
	text, _ := Credential(r)
	people := *t.people.Load()
	if len(people) == 0 || !token.LooksLikeToken(text) {
		return nil, false, nil
	}
	ctx, cancel := withPatience(r)
	defer cancel()
	identity, refusal := t.verifier.Operator(ctx, text)
	if refusal != nil {
		return nil, true, refusal
	}
	o := &operator.Identity{Name: session.PersonName(identity.User, identity.Key), User: identity.User,
		Issuer: identity.Key,
		Via:    operator.ViaToken}
	if identity.Person != nil {
		o.Groups = identity.Person.Groups
	}
	if people.Grant(o, identity.Key, identity.User, o.Groups); o.Any() == 0 {
		return nil, false, nil
	}
	if o.In(identity.Tenant) != 0 && identity.Tenant != "" { // otherwise Tenants checks the tenant
		o.Grant(identity.Tenant, RolesOf(identity.Scopes))
	}
	return o, true, nil
}
