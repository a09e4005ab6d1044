package tenant

import (
	"context"

	"github.com/capgate/capgate/internal/call"
)

// Single authenticates the callers of a gateway without credentials. All callers belong to one tenant, and may
// name any user.
type Single struct{}

// Lookup accepts the user and agent that the caller names.
func (Single) Lookup(c Credentials) (identity Identity, known bool, refusal *call.Refusal) {
	if refusal := checkNames(c.User, c.Agent); refusal != nil {
		return Identity{Tenant: Default}, true, refusal
	}
	return Identity{Tenant: Default, User: c.User, Agent: c.Agent, Scopes: Invoke | Read | Engines,
		Asserts: User | Agent}, true, nil
}

// Authenticate does the same.
func (s Single) Authenticate(_ context.Context, c Credentials) (Identity, *call.Refusal) {
	identity, _, refusal := s.Lookup(c)
	return identity, refusal
}
