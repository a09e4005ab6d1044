package config

import (
	"fmt"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/tenant"
)

// Certificate maps client certificates to a tenant. It has either SPIFFE or DNS; the first entry that matches a
// certificate is used.
type Certificate struct {
	// spiffe: SPIFFE ID, where * stands for one segment of the path, as in spiffe://example.org/ns/*/sa/orch
	SPIFFE  string
	DNS     string         // dns: name in the certificate; its first label may be *
	Tenant  string         // tenant: tenant of the callers
	Scopes  tenant.Scopes  // scopes: as a key's
	Asserts tenant.Asserts // asserts: as a key's
}

func (p *parser) certificate(at strictyaml.Place) {
	var c Certificate
	p.Mapping(at, map[string]strictyaml.Field{
		"spiffe": p.Text(&c.SPIFFE, func(v string) string {
			return unless(tenant.IsSPIFFEPattern(v),
				"%q is not a SPIFFE ID; write spiffe://, the trust domain in lower case and a path, in which * "+
					"stands for one whole segment", v)
		}),
		"dns":     p.Text(&c.DNS, checkCertificateName),
		"tenant":  p.Text(&c.Tenant, checkTenant),
		"scopes":  p.scopes(&c.Scopes),
		"asserts": p.asserts(&c.Asserts),
	})
	c.DNS = strings.ToLower(c.DNS)
	if !at.Has("scopes") {
		c.Scopes = tenant.Invoke | tenant.Read
	}
	switch {
	case at.Has("spiffe") == at.Has("dns"):
		p.Missing(at, "spiffe", "required: the SPIFFE ID of the certificates, as in "+
			"spiffe://example.org/ns/tools/sa/orchestrator; or dns; not both")
	case c.Tenant == "":
		p.Missing(at, "tenant", "required: the tenant of the callers with these certificates")
	}
	p.certified = append(p.certified, at)
	p.config.Certificates = append(p.config.Certificates, c)
}

func checkCertificateName(v string) string {
	name := strings.TrimPrefix(v, "*.")
	if !call.IsHostName(name) || !strings.Contains(name, ".") {
		return fmt.Sprintf("%q is not a name; write one as in orchestrator.example.org, or *.example.org", v)
	}
	return ""
}

// checkCertificates checks that client certificates are requested, and belong to tenants.
func (p *parser) checkCertificates(at strictyaml.Place) {
	c := p.config
	switch {
	case len(c.Certificates) == 0:
		return
	case c.TLS.ClientCAFile == "":
		p.Fail(at.Child("certificates"), "need tls.client_ca_file, their authorities")
	case !c.Multi:
		p.Fail(at.Child("certificates"),
			"there are no tenants; add tenants, as in tenants: [{id: acme, capabilities: "+
				"['*']}], or identity, with store: redis")
	}
	for i := range c.Certificates {
		if id := c.Certificates[i].Tenant; c.Multi && !c.Identity.Stored && id != "" && p.tenantIDs[id] == 0 {
			p.Fail(p.certified[i].Child("tenant"), "%s is not among tenants", id)
		}
	}
}
