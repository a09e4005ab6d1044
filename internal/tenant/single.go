package tenant

import (
	"context"

	"github.com/capgate/capgate/internal/call"
)

// Single is the tenancy of a gateway without credentials. Every caller is of one tenant,
// and is believed on whose behalf it calls: there is nobody it could be kept from.
type Single struct{}

// Lookup takes what the caller says of user and agent.
func (Single) Lookup(c Credentials) (who Identity, known bool, refusal *call.Refusal) {
	if refusal := checkNames(c.User, c.Agent); refusal != nil {
		return Identity{Tenant: Default}, true, refusal
	}
	return Identity{Tenant: Default, User: c.User, Agent: c.Agent, Scopes: Invoke | Read | Engines,
		Asserts: User | Agent}, true, nil
}

// Authenticate does the same.
func (s Single) Authenticate(_ context.Context, c Credentials) (Identity, *call.Refusal) {
	who, _, refusal := s.Lookup(c)
	return who, refusal
}
