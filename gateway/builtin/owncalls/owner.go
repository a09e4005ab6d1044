package owncalls

import (
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/tenant"
)

// longest is the length of the longest names that are compared, in bytes. Recent calls have the first 128 bytes of a
// name, or up to three fewer, so that a name of that length may be another, longer one.
const longest = 124

// owner selects the calls of a caller.
type owner struct {
	tenant, key, user, agent string
	whole                    bool             // all calls of the key, whatever user and agent they name
	at                       *tenant.Listener // of the caller; nil: the public port
}

// ownerOf returns the owner for a caller. A token and a certificate belong to many people or programs, which share the
// name that calls have as their key; only an API key stands for one caller by itself.
func ownerOf(i *tenant.Identity) owner {
	apiKey := i.Key != "" && i.Validity == nil && i.Person == nil && i.Subject == ""
	return owner{tenant: i.Tenant, key: i.Key, user: i.User, agent: i.Agent,
		whole: apiKey && i.User == "" && i.Agent == "", at: i.At}
}

func (o *owner) has(c *recent.Call) bool {
	return o.sees(c) && is(o.tenant, c.Tenant) && is(o.key, c.Key) &&
		(o.whole || is(o.user, c.User) && is(o.agent, c.Agent))
}

// sees reports whether the listener of a caller shows a call: a listener of one capability shows the calls of that
// capability, and those without a capability that arrived at the listener.
func (o *owner) sees(c *recent.Call) bool {
	if o.at == nil || o.at.Capability == "" {
		return true
	}
	return c.Capability == o.at.Capability || c.Capability == "" && c.Listener == o.at.Name
}

func is(own, name string) bool { return own == name && len(own) <= longest }
