package tenant

import (
	"context"

	"github.com/capgate/capgate/internal/call"
)

// Default is the tenant of a gateway without configured tenants.
const Default = "default"

// maxName is the maximum length of a user or an agent, in bytes.
const maxName = 256

// Identity is an authenticated caller.
type Identity struct {
	Tenant string
	User   string // user on whose behalf the call is made; "" if none is named
	Agent  string // agent that makes the call; "" if none is named
	Key    string // id of the API key, or the name in the certificate; "" without credentials
	Scopes Scopes // scopes of the credential

	Asserts Asserts // which of User and Agent the caller may name itself, also after it was authenticated

	Settings *Settings // settings of the tenant; nil in a gateway without tenants, and in a decoded identity

	Person *Person // the person of a token; nil: no token, or its holder named another user

	Subject string // user of the token, if the caller named another user; otherwise ""

	Validity Validity // of the token or certificate; nil: an API key, or no credential

	Operator bool // an operator in the playground, see OperatorKey

	Only *Download // the one download that a signed URL permits; nil: Scopes decide

	At *Listener // where the call came in; nil: the public port
}

// OperatorKey precedes the name of an operator in Identity.Key.
const OperatorKey = "operator "

// Validity reports whether a token or a certificate is still valid.
type Validity interface {
	// StillValid may wait until ctx ends. It returns true if the answer is unavailable at the moment.
	StillValid(ctx context.Context) bool
}

// Sees reports whether a capability is visible for the caller: at a listener of a capability, only that one. A nil
// Identity sees all.
func (i *Identity) Sees(capability string) bool {
	return i == nil || i.Settings.Sees(capability) && i.At.takes(capability)
}

// Credentials are the credentials and names that a caller sends; each is "" if it is absent.
type Credentials struct {
	Credential, User, Agent string
	Signature               string // signature of a URL, in place of a credential
	// client certificate of the connection, if there is no credential; nil: it has none
	Peer *Peer
	// where the call came in; nil: the public port
	At *Listener
	// of the connection, for Lookup; nil: none
	Proof *Proof
}

// Assert returns the identity with the names that the caller sent, as far as its credential permits and its
// tenant is enabled. With a refusal, the result has the tenant and the key alone.
func (i Identity) Assert(c Credentials, may Asserts) (Identity, *call.Refusal) {
	if i.Settings != nil && i.Settings.Disabled {
		return i.refused(), refusedDisabled
	}
	i.Asserts = may
	if may&User != 0 && c.User != "" {
		if c.User != i.User && i.Person != nil {
			i.Subject, i.Person = i.User, nil // its groups are not those of the asserted user
		}
		i.User = c.User
	}
	if may&Agent != 0 && c.Agent != "" {
		i.Agent = c.Agent
	}
	if refusal := checkNames(i.User, i.Agent); refusal != nil {
		return i.refused(), refusal
	}
	return i, nil
}

// refused returns the part that records of a refused call need: the tenant, which its UID distinguishes from a deleted
// one, and the key.
func (i Identity) refused() Identity {
	return Identity{Tenant: i.Tenant, Key: i.Key, Settings: i.Settings, At: i.At}
}

func checkNames(user, agent string) *call.Refusal {
	if len(user) > maxName || len(agent) > maxName {
		return refusedName
	}
	return nil
}

var refusedName = &call.Refusal{Kind: call.InvalidArgument, Reason: "IDENTITY_INVALID",
	Message: "x-user-id and x-agent-id may have at most 256 bytes each"}
