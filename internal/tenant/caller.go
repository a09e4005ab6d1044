package tenant

import (
	"net/url"
	"strings"
)

// Metadata is what tells the gateway's own services who calls. The gateway sets it, and
// takes it from every call that comes with it.
const Metadata = "x-capgate-caller"

// Text is an identity as a value of Metadata.
func (i Identity) Text() string {
	return url.Values{"tenant": {i.Tenant}, "user": {i.User}, "agent": {i.Agent}, "key": {i.Key}, "scopes": {i.Scopes.String()}}.Encode()
}

// ParseIdentity reads what Text wrote; not ok if that did not.
func ParseIdentity(text string) (i Identity, ok bool) {
	v, err := url.ParseQuery(text)
	if err != nil || v.Get("tenant") == "" {
		return Identity{}, false
	}
	i = Identity{Tenant: v.Get("tenant"), User: v.Get("user"), Agent: v.Get("agent"), Key: v.Get("key")}
	for name := range strings.SplitSeq(v.Get("scopes"), ",") {
		scope, _ := ParseScope(name)
		i.Scopes |= scope
	}
	return i, true
}
