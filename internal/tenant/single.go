package tenant

import "github.com/capgate/capgate/internal/call"

// Single is the tenancy of a gateway without credentials. Every caller is of one tenant,
// and is believed on whose behalf it calls: there is nobody it could be kept from.
type Single struct{}

// Identify takes what the caller says of user and agent, "" where it says nothing.
func (Single) Identify(user, agent string) (Identity, *call.Refusal) {
	if refusal := checkNames(user, agent); refusal != nil {
		return Identity{Tenant: Default}, refusal
	}
	return Identity{Tenant: Default, User: user, Agent: agent, Scopes: Invoke | Read}, nil
}
