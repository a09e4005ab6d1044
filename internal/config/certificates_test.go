package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

const tlsAndTenants = "fleets: [{capability: a, backends: []}]\ntenants: [{id: acme, capabilities: []}]\ntls: " +
	"{cert_file: c, key_file: k, client_ca_file: ca}\n"

func TestParseCertificates(t *testing.T) {
	t.Parallel()
	got, err := config.Parse("f", []byte(strings.Replace(tlsAndTenants, "ca}", "ca, client_auth: optional}", 1)+
		`certificates:
  - {spiffe: "spiffe://example.org/ns/*/sa/orch", tenant: acme, scopes: [invoke], asserts: [user, agent]}
  - {dns: "*.Agents.example.org", tenant: acme}
`))
	check.Must(t, err)
	want := []tenant.Certificate{
		{SPIFFE: "spiffe://example.org/ns/*/sa/orch", Tenant: "acme", Scopes: tenant.Invoke,
			Asserts: tenant.User | tenant.Agent},
		{DNS: "*.agents.example.org", Tenant: "acme", Scopes: tenant.Invoke | tenant.Read},
	}
	if !reflect.DeepEqual(got.Certificates, want) || !got.TLS.Optional {
		t.Errorf("%+v, %+v", got.Certificates, got.TLS)
	}
}

func TestParseCertificatesErrors(t *testing.T) {
	t.Parallel()
	one := func(rule string) string { return tlsAndTenants + "certificates: [{" + rule + "}]\n" }
	for name, test := range map[string]struct{ file, want string }{
		"neither": {one("tenant: acme"), "f:4: certificates[0].spiffe: required"},
		"both": {one("tenant: acme, dns: a.b, spiffe: 'spiffe://a/b'"),
			"f:4: certificates[0].spiffe: required"},
		"no tenant":      {one("dns: a.b"), "f:4: certificates[0].tenant: required"},
		"another tenant": {one("dns: a.b, tenant: globex"), "f:4: certificates[0].tenant: there is no tenant globex"},
		"a wide pattern": {one("spiffe: 'spiffe://*/b', tenant: acme"),
			"f:4: certificates[0].spiffe: \"spiffe://*/b\" is not a SPIFFE ID"},
		"all names":     {one("dns: '*', tenant: acme"), "f:4: certificates[0].dns: \"*\" is not a name"},
		"a top domain":  {one("dns: '*.org', tenant: acme"), "f:4: certificates[0].dns: \"*.org\" is not a name"},
		"a star inside": {one("dns: 'a.*.org', tenant: acme"), "f:4: certificates[0].dns: \"a.*.org\" is not a name"},
		"no authorities": {strings.Replace(one("dns: a.b, tenant: acme"), ", client_ca_file: ca", "", 1),
			"f:4: certificates: need tls.client_ca_file"},
		"no tenants": {strings.Replace(one("dns: a.b, tenant: acme"), "tenants: [{id: acme, capabilities: []}]",
			"domains: []", 1), "f:4: certificates: there are no tenants; add tenants"},
		"optional what": {"fleets: [{capability: a, backends: []}]\ntls: {cert_file: c, key_file: k, " +
			"client_auth: optional}\n", "f:2: tls.client_ca_file: required"},
		"no word": {strings.Replace(tlsAndTenants, "ca}", "ca, client_auth: maybe}", 1),
			`f:3: tls.client_auth: "maybe" is not possible`},
	} {
		_, err := config.Parse("f", []byte(test.file))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
	}
}
