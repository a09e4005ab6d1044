package tenant

import "github.com/capgate/capgate/internal/call"

// Default is the tenant of a gateway that has no other.
const Default = "default"

// maxName is the longest name of a user or an agent, in bytes.
const maxName = 256

// Identity is who calls.
type Identity struct {
	Tenant string
	User   string // on whose behalf; "" where nobody said
	Agent  string // by which agent; "" where nobody said
}

// Single is the tenancy of a gateway without credentials. Every caller is of one tenant,
// and is believed on whose behalf it calls: there is nobody it could be kept from.
type Single struct{}

// Identify takes what the caller says of user and agent, "" where it says nothing.
func (Single) Identify(user, agent string) (Identity, *call.Refusal) {
	if len(user) > maxName || len(agent) > maxName {
		return Identity{Tenant: Default}, refusedName
	}
	return Identity{Default, user, agent}, nil
}

var refusedName = &call.Refusal{Kind: call.InvalidArgument, Reason: "IDENTITY_INVALID",
	Message: "x-user-id and x-agent-id may have 256 bytes each"}
