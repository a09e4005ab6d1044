package config

import (
	"slices"

	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/toolset"
)

// Identity are settings of callers that are not in the file.
type Identity struct {
	// redis uses the tenants and API keys that capgate tenants and capgate keys create, besides the file's.
	Stored bool `yaml:"store" enum:"none,redis" default:"none"`
}

const noTenants = "there are no tenants; add tenants, as in tenants: [{id: acme, capabilities: ['*']}], or identity, " +
	"with store: redis"

// checkCallers checks the tenants that the file names, and what authenticates callers.
func (c *Config) checkCallers(at strictyaml.At) {
	known := map[string]bool{"": true}
	for i := range c.Tenants {
		known[c.Tenants[i].ID] = true
	}
	unknown := func(id string) bool { return c.Multi && !c.Identity.Stored && !known[id] }
	for i := range c.Issuers {
		if one := &c.Issuers[i]; unknown(one.Tenant) {
			at.Field("issuers").Item(i).Fail("tenant", "there is no tenant %s", one.Tenant)
		}
	}
	for i := range c.Certificates {
		if id := c.Certificates[i].Tenant; unknown(id) {
			at.Field("certificates").Item(i).Fail("tenant", "there is no tenant %s", id)
		}
	}
	ofCallers := 0
	for i := range c.Issuers {
		if !c.hasOperators(c.Issuers[i].Name) {
			ofCallers++
		}
	}
	for _, needy := range []struct {
		name string
		n    int
	}{{"issuers", ofCallers}, {"certificates", len(c.Certificates)}} {
		if needy.n > 0 && !c.Multi {
			at.Fail(needy.name, noTenants)
		}
	}
	if len(c.Certificates) > 0 && c.TLS.ClientCAFile == "" && c.Operators.TLS.ClientCAFile == "" &&
		!slices.ContainsFunc(c.Listeners, func(l Listener) bool { return l.TLS.ClientCAFile != "" }) {
		at.Fail("certificates", "need tls.client_ca_file, their authorities")
	}
	for i := range c.Tenants {
		one, here := &c.Tenants[i], at.Field("tenants").Item(i)
		if one.Limits != nil {
			checkLimits(here.Field("limits"), one.Limits)
		}
		for j := range one.Keys {
			if one.Keys[j].Hash.Peppered() && c.PepperFile == "" {
				here.Field("keys").Item(j).Fail("hash",
					"was made with a pepper, and there is no pepper_file; name the "+
						"file with which the key was created")
			}
		}
	}
	toolset.CheckAll(at.Field("toolsets"), c.Toolsets, func(id string) bool {
		return unknown(id) || !c.Multi && id != tenant.Default
	})
	c.checkReserved(at.Field("fleets"), unknown)
}

// checkReserved checks that the sessions of backends have a tenant, if the file has tenants, and takes the names for
// DNS out of the backends.
func (c *Config) checkReserved(at strictyaml.At, unknown func(id string) bool) {
	for i := range c.Fleets {
		for j, b := range c.Fleets[i].Backends {
			here := at.Item(i).Field("backends").Item(j)
			switch {
			case b.Session == "" && b.Tenant != "":
				here.Fail("tenant", "is the tenant of the session, so it needs session")
			case b.Session == "":
			case c.Multi && b.Tenant == "":
				here.Missing("tenant", "required: the tenant of the session; tenants may have sessions with the same "+
					"id")
			case !c.Multi && b.Tenant != "":
				here.Fail("tenant", "the file has no tenants; leave it out, or add tenants or identity")
			case unknown(b.Tenant):
				here.Fail("tenant", "there is no tenant %s", b.Tenant)
			}
		}
		c.Fleets[i].takeNames()
	}
}

// checkLimits checks a block of limits. Errors between its fields have the place of the block, or of an item of each.
func checkLimits(at strictyaml.At, l *tenant.Limits) {
	for i := range l.Each {
		here := at.Field("each").Item(i)
		if err := l.Each[i].CheckNew(l.Each[:i]); err != nil && !here.Failed() {
			here.Fail("", "%s", err)
		}
	}
	if err := l.CheckNew(); err != nil && !at.Failed() {
		at.Fail("", "%s", err)
	}
}
