package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/tenant"
)

// maxKeyName is how long the name of a key of the configuration may be, in bytes.
const maxKeyName = 256

// checkNew rejects settings that are invalid in a configuration.
func (c *keysCommand) checkNew() error {
	for _, name := range c.key.GetScopes() {
		if _, known := tenant.ParseScope(name); !known {
			return usageError("--scopes: %q is not a scope; want some of %s", name, tenant.AllScopes)
		}
	}
	for _, name := range c.key.GetAsserts() {
		if _, known := tenant.ParseAssert(name); !known {
			return usageError("--asserts: %q is not known; want user, agent or both", name)
		}
	}
	for _, name := range commas(c.roles) {
		if _, known := operator.ParseRole(name); !known {
			return usageError("--roles: %q is not a role; want some of %s", name, operator.AllRoles)
		}
	}
	if c.roles != "" && len(c.key.GetScopes())+len(c.key.GetAsserts()) > 0 {
		return usageError("--roles is for an operator's key, which has neither --scopes nor --asserts")
	}
	if name := c.key.GetName(); len(name) > maxKeyName || !utf8.ValidString(name) {
		return usageError("--name: want at most %d bytes of UTF-8", maxKeyName)
	}
	return nil
}

// newKey makes a key for the configuration.
func (c *keysCommand) newKey() error {
	if err := c.take(); err != nil {
		return err
	}
	if err := c.checkNew(); err != nil { // the gateway rejects an unknown key
		return err
	}
	var pepper []byte
	if c.pepper != "" {
		var err error
		if pepper, err = readPepper(c.pepper, fingerprints{}); err != nil {
			return err
		}
	}
	id, secret := tenant.NewCredential()
	err := c.write(func() (string, string, error) { return id, tenant.Credential(id, secret), nil })
	if err == nil {
		where := "the tenant's keys"
		if c.roles != "" {
			where = "operators.keys"
		}
		fmt.Fprintf(c.err, "# of %s in the configuration:\n- %s\n", where, c.entry(id, tenant.HashOf(secret, pepper)))
	}
	return err
}

// entry is the key in the configuration, which is YAML and so takes strings as JSON has them.
func (c *keysCommand) entry(id string, hash fmt.Stringer) string {
	fields := []string{"id: " + id, fmt.Sprintf("hash: %q", hash)}
	if name := c.key.GetName(); name != "" {
		text, _ := json.Marshal(name) // a string always encodes
		fields = append(fields, "name: "+string(text))
	}
	for _, list := range []struct {
		field string
		names []string
	}{{"scopes", c.key.GetScopes()}, {"asserts", c.key.GetAsserts()}, {"roles", commas(c.roles)}} {
		if len(list.names) > 0 {
			fields = append(fields, list.field+": ["+strings.Join(list.names, ", ")+"]")
		}
	}
	if at := c.key.GetExpireTime(); at != nil {
		fields = append(fields, "expires: "+at.AsTime().Format(time.RFC3339))
	}
	return "{" + strings.Join(fields, ", ") + "}"
}
