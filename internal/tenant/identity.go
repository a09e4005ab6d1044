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
	Key    string // id of the key that was shown, or the name in a certificate; "" where there are none
	Scopes Scopes // what the caller may do

	Asserts Asserts // what of User and Agent the caller may say itself, also later than it was identified

	Settings *Settings // of the tenant; nil in a gateway without tenants, and where Text was on the way

	Only *Download // the one thing that the caller may do, which showed a signature; nil: Scopes say it
}

// Credentials is what a caller says of itself, "" where it says nothing.
type Credentials struct {
	Credential, User, Agent string
	Signature               string // of a URL, in place of a credential
	Peer                    *Peer  // whose certificate the connection has, where no credential is shown; nil: it has none
}

// Assert is the identity of somebody who says more of itself, as far as its credential may, if
// its tenant may call at all. A refusal comes with no more than its tenant and key.
func (i Identity) Assert(c Credentials, may Asserts) (Identity, *call.Refusal) {
	if i.Settings != nil && i.Settings.Disabled {
		return Identity{Tenant: i.Tenant, Key: i.Key}, refusedDisabled
	}
	i.Asserts = may
	if may&User != 0 && c.User != "" {
		i.User = c.User
	}
	if may&Agent != 0 && c.Agent != "" {
		i.Agent = c.Agent
	}
	if refusal := checkNames(i.User, i.Agent); refusal != nil {
		return Identity{Tenant: i.Tenant, Key: i.Key}, refusal
	}
	return i, nil
}

func checkNames(user, agent string) *call.Refusal {
	if len(user) > maxName || len(agent) > maxName {
		return refusedName
	}
	return nil
}

var refusedName = &call.Refusal{Kind: call.InvalidArgument, Reason: "IDENTITY_INVALID",
	Message: "x-user-id and x-agent-id may have 256 bytes each"}
