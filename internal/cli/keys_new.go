package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/tenant"
)

// maxKeyName is the maximum length of the name of a key of the configuration, in bytes.
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
		if pepper, err = settings.ReadPepper(c.pepper, settings.Files{}); err != nil {
			return err
		}
	}
	id, secret := tenant.NewCredential()
	made := configuredKey{Entry: c.entry(id, tenant.HashOf(secret, pepper))}
	err := c.write(func() (string, string, error) {
		credential := tenant.Credential(id, secret)
		if c.format == tableFormat || c.file != "" {
			return id, credential, nil
		}
		made.Credential = credential
		var b bytes.Buffer
		err := c.encode(&b, made, "  ")
		return id, strings.TrimSuffix(b.String(), "\n"), err
	})
	switch {
	case err != nil:
		return err
	case c.format == tableFormat:
		where := "the tenant's keys"
		if c.roles != "" {
			where = "operators.keys"
		}
		fmt.Fprintf(c.err, "# of %s in the configuration:\n- %s\n", where, made.Entry)
	case c.file != "":
		return c.data(made, nil)
	}
	return nil
}

// configuredKey is a key for the configuration as data.
type configuredKey struct {
	Credential string   `json:"credential,omitempty"` // "": in the file of --out
	Entry      keyEntry `json:"entry"`
}

// keyEntry is the key in the configuration.
type keyEntry struct {
	ID      string   `json:"id"`
	Hash    string   `json:"hash"`
	Name    string   `json:"name,omitempty"`
	Scopes  []string `json:"scopes,omitempty"`
	Asserts []string `json:"asserts,omitempty"`
	Roles   []string `json:"roles,omitempty"`
	Expires string   `json:"expires,omitempty"`
}

func (c *keysCommand) entry(id string, hash fmt.Stringer) keyEntry {
	e := keyEntry{ID: id, Hash: hash.String(), Name: c.key.GetName(), Scopes: c.key.GetScopes(),
		Asserts: c.key.GetAsserts(), Roles: commas(c.roles)}
	if at := c.key.GetExpireTime(); at != nil {
		e.Expires = at.AsTime().Format(time.RFC3339)
	}
	return e
}

// String returns the entry on one line of YAML, which takes strings as JSON has them.
func (e keyEntry) String() string {
	fields := []string{"id: " + e.ID, fmt.Sprintf("hash: %q", e.Hash)}
	if e.Name != "" {
		text, _ := json.Marshal(e.Name) // a string always encodes
		fields = append(fields, "name: "+string(text))
	}
	for _, list := range []struct {
		field string
		names []string
	}{{"scopes", e.Scopes}, {"asserts", e.Asserts}, {"roles", e.Roles}} {
		if len(list.names) > 0 {
			fields = append(fields, list.field+": ["+strings.Join(list.names, ", ")+"]")
		}
	}
	if e.Expires != "" {
		fields = append(fields, "expires: "+e.Expires)
	}
	return "{" + strings.Join(fields, ", ") + "}"
}
