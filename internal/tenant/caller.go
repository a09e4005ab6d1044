package tenant

import "net/url"

// Metadata is what tells the gateway's own services who calls. The gateway sets it, and
// takes it from every call that comes with it.
const Metadata = "x-capgate-caller"

// Text is an identity as a value of Metadata.
func (i Identity) Text() string {
	return url.Values{"tenant": {i.Tenant}, "user": {i.User}, "agent": {i.Agent}}.Encode()
}

// ParseIdentity reads what Text wrote; not ok if that did not.
func ParseIdentity(text string) (i Identity, ok bool) {
	v, err := url.ParseQuery(text)
	if err != nil || v.Get("tenant") == "" {
		return Identity{}, false
	}
	return Identity{v.Get("tenant"), v.Get("user"), v.Get("agent")}, true
}
