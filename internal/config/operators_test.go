package config_test

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestOperatorsErrors: what is wrong with a block operators, each with its line. Every expected text must be the
// beginning of an error, and no other error may exist.
func TestOperatorsErrors(t *testing.T) {
	t.Parallel()
	const rest = "fleets: [{capability: a, backends: ['b:1']}]\n"
	const tenants = "policies: {}\ntenants: [{id: acme, capabilities: ['*']}]\n"
	const issuers = "issuers: [{name: corp, issuer: 'https://h', audiences: [a]}]\n"
	const hash = "hash: 'sha256:" + "00000000000000000000000000000000" + "00000000000000000000000000000000'"
	const id = "aaaaaaaaaaaaaaaa"
	for name, test := range map[string]struct {
		file string
		want []string
	}{
		"unknown field": {"operators: {keyz: []}\n",
			[]string{`f:1: operators.keyz: unknown field; did you mean "keys"?`}},
		"a key without a hash": {"operators: {keys: [{id: " + id + "}]}\n",
			[]string{`f:1: operators.keys[0].hash: required`}},
		"a key with two hashes": {"operators: {keys: [{id: " + id + ", " + hash + ", hash_file: h}]}\n",
			[]string{`f:1: operators.keys[0].hash_file: hash is set, too`}},
		"a key of two": {"operators: {keys: [{id: " + id + ", " + hash + "}, {id: " + id + ", " + hash + "}]}\n",
			[]string{`f:1: operators.keys[1].id: ` + id + ` is already at operators.keys[0].id`}},
		"a pepper that is not there": {"operators: {keys: [{id: " + id + ", " +
			strings.Replace(hash, "sha256", "hmac-sha256", 1) + "}]}\n",
			[]string{`f:1: operators.keys[0].hash: was made with a pepper, and there is no pepper_file`}},
		"an unknown role": {"operators: {keys: [{id: " + id + ", " + hash + ", roles: [root]}]}\n",
			[]string{`f:1: operators.keys[0].roles`}},
		"no role": {"operators: {keys: [{id: " + id + ", " + hash + ", roles: []}]}\n",
			[]string{`f:1: operators.keys[0].roles: is empty; name roles: `}},
		"an unknown tenant": {tenants + "operators: {keys: [{id: " + id + ", " + hash + ", tenant: globex}]}\n",
			[]string{`f:3: operators.keys[0].tenant: there is no tenant globex`}},
		"a tenant without tenants": {"operators: {keys: [{id: " + id + ", " + hash + ", tenant: acme}]}\n",
			[]string{`f:1: operators.keys[0].tenant: `}},
		"certificates without authorities": {"operators: {certificates: [{dns: ops.example}]}\n",
			[]string{`f:1: operators.certificates: need operators.tls.client_ca_file`}},
		"a certificate without a name": {"operators: {tls: {cert_file: c, key_file: k, client_ca_file: a}, " +
			"certificates: [{roles: [admin]}]}\n", []string{`f:1: operators.certificates[0].spiffe: required`}},
		"a certificate of two names": {"operators: {tls: {cert_file: c, key_file: k, client_ca_file: a}, " +
			"certificates: [{spiffe: 'spiffe://h/a', dns: b.example}]}\n",
			[]string{`f:1: operators.certificates[0].spiffe: required`}},
		"half of TLS": {"operators: {tls: {cert_file: c}}\n", []string{`f:1: operators.tls`}},
		"an unknown issuer": {tenants + issuers + "operators: {sign_in: [{issuer: other, client_id: c}]}\n",
			[]string{`f:4: operators.sign_in[0].issuer: there is no issuer other in issuers`}},
		"no client": {tenants + issuers + "operators: {sign_in: [{issuer: corp}]}\n",
			[]string{`f:4: operators.sign_in[0].client_id: required`}},
		"an issuer of two": {tenants + issuers +
			"operators: {sign_in: [{issuer: corp, client_id: c}, {issuer: corp, client_id: d}]}\n",
			[]string{`f:4: operators.sign_in[1].issuer: corp is already at operators.sign_in[0].issuer`}},
		"nobody of people": {tenants + issuers + "operators: {people: [{issuer: corp, roles: [viewer]}]}\n",
			[]string{`f:4: operators.people[0].user: required`}},
		"a user and a group": {tenants + issuers +
			"operators: {people: [{issuer: corp, user: a, group: b, roles: [viewer]}]}\n",
			[]string{`f:4: operators.people[0].user: required`}},
		"people without roles": {tenants + issuers + "operators: {people: [{issuer: corp, user: a}]}\n",
			[]string{`f:4: operators.people[0].roles: required`}},
		"sessions": {"operators: {session: {ttl: 1s}, metrics: closed}\n", []string{
			`f:1: operators.session.ttl: "1s" is not possible; it must be a duration from 1m to 720h`,
			`f:1: operators.metrics: "closed" is not possible; it must be sign_in or open`}},
		"insecure, and not": {"operators: {insecure: true, keys: [{id: " + id + ", " + hash + "}]}\n",
			[]string{`f:1: operators.insecure: insecure excludes the other settings of operators`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := config.Parse("f", []byte(test.file+rest))
			if err == nil {
				t.Fatal("accepted")
			}
			got := strings.Split(err.Error(), "\n")
			for i, want := range test.want {
				if i >= len(got) || !strings.HasPrefix(got[i], want) {
					t.Errorf("got %q, want %q", got, test.want)
				}
			}
			if len(got) != len(test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestWhoMayUseTheAdminAPI: whether the admin API asks for credentials, and the warnings about the file.
func TestWhoMayUseTheAdminAPI(t *testing.T) {
	t.Parallel()
	const key = "keys: [{id: aaaaaaaaaaaaaaaa, hash: 'sha256:" + "00000000000000000000000000000000" +
		"00000000000000000000000000000000'}]"
	const public = "admin: ':8081'\n"
	const tls = "tls: {cert_file: c, key_file: k}"
	for name, test := range map[string]struct {
		file     string
		asks     bool
		warnings []string
	}{
		"nothing":              {"", false, nil},
		"on loopback":          {"operators: {}\n", false, nil},
		"on loopback, tenants": {"operators: {}\ntenants: []\n", true, nil},
		"a key":                {"operators: {" + key + "}\n", true, nil},
		"insecure on loopback": {"operators: {insecure: true}\n", false,
			[]string{"the admin API needs no credential: every"}},
		"insecure": {public + "operators: {insecure: true}\n", false,
			[]string{"the admin API needs no credential"}},
		"insecure with tenants": {"operators: {insecure: true}\ntenants: []\n", false,
			[]string{"the admin API needs no credential"}},
		"public, no operators": {public, false, nil}, // Unguarded
		"public, cleartext": {public + "operators: {" + key + "}\n", true,
			[]string{"operators send their credentials in cleartext"}},
		"public, TLS": {public + "operators: {" + key + ", " + tls + "}\n", true, nil},
		"public, TLS and nobody": {public + "operators: {" + tls + "}\n", true,
			[]string{"no one may use the admin API except for probes"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := config.Parse("f", []byte(test.file+"fleets: [{capability: a, backends: ['b:1']}]\n"))
			check.Must(t, err)
			if asks := c.Authenticates(); asks != test.asks {
				t.Errorf("the admin API asks for credentials: %v", asks)
			}
			if text := c.Unguarded(); (text != "") != (name == "public, no operators") {
				t.Errorf("serve does not start: %q", text)
			}
			matchLines(t, c.Warnings(), test.warnings)
		})
	}
}
