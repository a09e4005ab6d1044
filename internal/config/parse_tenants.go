package config

import (
	"fmt"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/tenant"
)

func (p *parser) tenants(at strictyaml.Place) {
	p.config.Multi = true
	p.List(p.tenant)(at)
}

func (p *parser) tenant(at strictyaml.Place) {
	var t Tenant
	p.Mapping(at, map[string]strictyaml.Field{
		"id":           p.Text(&t.ID, checkTenant),
		"capabilities": p.grants(&t.Capabilities),
		"keys":         p.List(p.key(&t)),
		"limits": func(at strictyaml.Place) {
			t.Limits = new(tenant.Limits)
			p.limits(t.Limits)(at)
		},
	})
	if !at.Has("capabilities") {
		p.Missing(at, "capabilities", `required: patterns of the capabilities that this tenant may see and call; ["*"]: all`)
	}
	p.once(at, "id", t.ID, p.tenantIDs, "required: the tenant's name in policies and logs")
	p.config.Tenants = append(p.config.Tenants, t)
}

func (p *parser) grants(g *tenant.Grants) strictyaml.Field {
	return func(at strictyaml.Place) {
		var patterns []string
		p.List(p.word(func(pattern string) string {
			wrong := tenant.CheckGrant(pattern)
			if wrong == "" {
				patterns = append(patterns, pattern)
			}
			return wrong
		}))(at)
		var err error
		if *g, err = tenant.ParseGrants(patterns); err != nil {
			p.Fail(at, "%v", err)
		}
	}
}

// once checks that an id is present and unique.
func (p *parser) once(at strictyaml.Place, name, id string, lines map[string]int, missing string) {
	switch {
	case id == "":
		p.Missing(at, name, missing)
	case lines[id] > 0:
		p.Fail(at.Child(name), "%s is already in line %d", id, lines[id])
	default:
		lines[id] = at.Child(name).Node.Line
	}
}

// key parses an API key. Errors do not repeat a wrong id or hash, which may be the key itself.
func (p *parser) key(of *Tenant) strictyaml.Field {
	return func(at strictyaml.Place) {
		var hash, expires string
		var k Key
		p.Mapping(at, map[string]strictyaml.Field{
			"id": p.Text(&k.ID, checkKeyID),
			"hash": p.Text(&hash, func(v string) (wrong string) {
				var ok bool
				if k.Hash, ok = tenant.ParseHash(v); !ok {
					return "is not a hash; it must be sha256: or hmac-sha256: and 64 hexadecimal digits, as " +
						"capgate keys new prints it"
				}
				return ""
			}),
			"hash_file": p.names(&k.HashFile),
			"scopes":    p.scopes(&k.Scopes),
			"asserts":   p.asserts(&k.Asserts),
			"name":      p.Text(&k.Name, func(v string) string { return unless(len(v) <= 256, "has more than 256 bytes") }),
			"expires": p.Text(&expires, func(v string) (wrong string) {
				var err error
				k.Expires, err = time.Parse(time.RFC3339, v)
				return unless(err == nil, "%q is not a time; write it with its zone, as in 2027-01-31T00:00:00Z", v)
			}),
		})
		if k.Hash.Peppered() {
			p.peppered = append(p.peppered, at.Child("hash"))
		}
		if !at.Has("scopes") {
			k.Scopes = tenant.Invoke | tenant.Read
		}
		switch {
		case at.Has("hash") && at.Has("hash_file"):
			p.Fail(at.Child("hash_file"), "hash is there, too; give one of the two")
		case !at.Has("hash") && !at.Has("hash_file"):
			p.Missing(at, "hash", "required: the hash of the key's secret; or hash_file")
		}
		p.once(at, "id", k.ID, p.keyIDs, "required: the key's public part; capgate keys new creates one")
		of.Keys = append(of.Keys, k)
	}
}

// checkPepper checks that there is a pepper for hashes that need one.
func (p *parser) checkPepper() {
	if p.config.PepperFile != "" {
		return
	}
	for _, at := range p.peppered {
		p.Fail(at, "was made with a pepper, and there is no pepper_file; name the file with which the key was created")
	}
}

// word parses an item of a list. take gets it, and returns its problem or "".
func (p *parser) word(take func(string) string) strictyaml.Field {
	var word string
	return p.Text(&word, take)
}

func unless(ok bool, format string, args ...any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func checkTenant(v string) string {
	return unless(call.IsZone(v) && v != "-",
		"%q is not a tenant; it has 1 to 63 letters, digits, hyphens, dots and underscores, and is not a hyphen alone", v)
}

func checkKeyID(v string) string {
	return unless(tenant.IsKeyID(v), "is not the id of a key; it has 16 characters, as capgate keys new prints it")
}
