package cli

import "github.com/capgate/capgate/internal/tenant"

// certificates returns the certificate rules of the file.
func (s *settings) certificates() []tenant.Certificate {
	rules := make([]tenant.Certificate, len(s.cfg.Certificates))
	for i, c := range s.cfg.Certificates {
		rules[i] = tenant.Certificate{SPIFFE: c.SPIFFE, DNS: c.DNS, Tenant: c.Tenant, Scopes: c.Scopes, Asserts: c.Asserts}
	}
	return rules
}
