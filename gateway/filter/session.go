package filter

import (
	"crypto/sha256"
	"encoding/base32"
)

// OwnSession returns the name of the session shared by all calls of a principal that name none: one for each user,
// agent and credential. The name reveals nothing about them.
func (c *Call) OwnSession() string { return "own:" + digest(c.Info.User, c.Info.Agent, c.Info.Key) }

// SessionOwner returns a name of the owner of a call's sessions, which is the user, or the key of a caller without one.
// It reveals nothing about them.
func (c *Call) SessionOwner() string {
	if c.Info.User != "" {
		return digest("user", c.Info.User)
	}
	return digest("key", c.Info.Key)
}

// digest returns a digest of strings.
func digest(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		sum := sha256.Sum256([]byte(part)) // of equal length, so that the boundaries of parts are unambiguous
		h.Write(sum[:])
	}
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)[:20])
}

// TenantKey returns a name of the caller's tenant that is unique, also compared to a later tenant with the same id.
func (c *Call) TenantKey() string {
	if uid := c.Principal.UID(); uid != "" {
		return c.Info.Tenant + "/" + uid
	}
	return c.Info.Tenant
}
