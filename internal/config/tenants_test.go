package config_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

const aHash = "sha256:f52fbd32b2b3b86ff88ef6c490628285f482af15ddcb29541f94bcf526a3f6c7"

func TestParseTenants(t *testing.T) {
	t.Parallel()
	const fleet = "fleets: [{capability: a, backends: []}]\n"
	got, err := config.Parse("f", []byte(fleet+`
pepper_file: /pepper
tenants:
  - id: acme
    capabilities: [weather, "calc-*"]
    keys:
      - {id: abcdefghijklmnop, hash: "`+aHash+`", scopes: [approve, policy],
         asserts: [user, agent], name: Ann's, expires: 2027-01-31T00:00:00+01:00}
      - {id: bbcdefghijklmnop, hash_file: /hash}
  - {id: globex, capabilities: ["*"]}
`))
	check.Must(t, err)
	hash, _ := tenant.ParseHash(aHash)
	want := []tenant.Declared{
		{ID: "acme", Capabilities: grants(t, "weather", "calc-*"), Keys: []tenant.Key{
			{
				ID: "abcdefghijklmnop", Hash: hash, Scopes: tenant.Approve | tenant.Policy,
				Asserts: tenant.User | tenant.Agent,
				Name:    "Ann's", Expires: got.Tenants[0].Keys[0].Expires,
			},
			{ID: "bbcdefghijklmnop", HashFile: "/hash", Scopes: tenant.Invoke | tenant.Read},
		}},
		{ID: "globex", Capabilities: grants(t, "*")},
	}
	if !reflect.DeepEqual(got.Tenants, want) || !got.Multi || got.PepperFile != "/pepper" {
		t.Errorf("got  %+v\nwant %+v", got.Tenants, want)
	}
	if at := got.Tenants[0].Keys[0].Expires; !at.Equal(time.Date(2027, 1, 30, 23, 0, 0, 0, time.UTC)) {
		t.Error(at)
	}
	for text, multi := range map[string]bool{"tenants: []": true, "": false, "identity: {store: redis}": true,
		"identity: {}": false, "identity: {store: none}\ntenants: []": true} {
		if got, err = config.Parse("f", []byte(fleet+text)); err != nil || got.Multi != multi {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func grants(t *testing.T, patterns ...string) tenant.Grants {
	t.Helper()
	g, err := tenant.ParseGrants(patterns)
	check.Must(t, err)
	return g
}

func TestParseTenantsErrors(t *testing.T) {
	t.Parallel()
	const fleet, secret = "fleets: [{capability: a, backends: []}]\n",
		"cg_abcdefghijklmnop_abcdefghijklmnopqrstuvwxyz234567"
	key := func(more string) string {
		return fleet + "tenants: [{id: acme, capabilities: [], keys: [{" + more + "}]}]\n"
	}
	for name, test := range map[string]struct{ file, want string }{
		"no id":    {fleet + "tenants: [{keys: []}]\n", "f:2: tenants[0].id: required"},
		"a bad id": {fleet + "tenants: [{id: 'a b'}]\n", "tenants[0].id: \"a b\" is not a tenant"},
		"a hyphen": {fleet + "tenants: [{id: '-', capabilities: []}]\n", "f:2: tenants[0].id: \"-\" is not a tenant"},
		"twice": {fleet + "tenants:\n- {id: a}\n- {id: a}\n",
			"f:4: tenants[1].id: a is already at tenants[0].id, in line 3"},
		"no grants": {fleet + "tenants:\n- id: a\n  keys: []\n",
			"f:3: tenants[0].capabilities: required: patterns of the capabilities"},
		"a bad grant": {fleet + "tenants: [{id: a, capabilities: [a, 'b[']}]\n",
			`f:2: tenants[0].capabilities[1]: "b[" is not a pattern`},
		"no capability": {fleet + "tenants: [{id: a, capabilities: [Weather]}]\n",
			`f:2: tenants[0].capabilities[0]: "Weather" is not a pattern`},
		"grants by words": {fleet + "tenants: [{id: a, capabilities: '*'}]\n",
			"f:2: tenants[0].capabilities: must be a list"},
		"a long grant": {fleet + "tenants: [{id: a, capabilities: ['" + strings.Repeat("*", 129) + "']}]\n",
			"f:2: tenants[0].capabilities[0]: "},
		"many grants": {fleet + "tenants: [{id: a, capabilities: [" + strings.Repeat("a,", 257) + "]}]\n",
			"f:2: tenants[0].capabilities: there are 257 patterns; at most 256"},
		"a mapping":      {fleet + "tenants: {acme: []}\n", "f:2: tenants: must be a list"},
		"key without id": {key("hash: '" + aHash + "'"), "tenants[0].keys[0].id: required"},
		"a whole key": {key("id: " + secret + ", hash: '" + aHash + "'"),
			"tenants[0].keys[0].id: is not the id of a key"},
		"a secret": {key("id: abcdefghijklmnop, hash: " + secret), "tenants[0].keys[0].hash: is not a hash"},
		"no hash":  {key("id: abcdefghijklmnop"), "tenants[0].keys[0].hash: required"},
		"no pepper": {key("id: abcdefghijklmnop, hash: 'hmac-" + aHash + "'"),
			"f:2: tenants[0].keys[0].hash: was made with a pepper, and there is no pepper_file"},
		"two hashes": {key("id: abcdefghijklmnop, hash_file: f, hash: '" + aHash + "'"),
			"hash_file: hash is set, too"},
		"a bad scope": {key("id: abcdefghijklmnop, hash_file: f, scopes: [invoke, root]"),
			`scopes[1]: "root" is not possible; it must be invoke, read, approve, policy, admin, engine.chat`},
		"a bad assertion": {key("id: abcdefghijklmnop, hash_file: f, asserts: [tenant]"),
			`asserts[0]: "tenant" is not possible; it must be user or agent`},
		"a bad time": {key("id: abcdefghijklmnop, hash_file: f, expires: 2027-01-31"),
			`expires: "2027-01-31" is not a time`},
		"a long name": {key("id: abcdefghijklmnop, hash_file: f, name: " + strings.Repeat("a", 257)),
			"name: has more than 256 bytes"},
		"another store": {fleet + "identity: {store: etcd}",
			`identity.store: "etcd" is not possible; it must be none or redis`},
		"a small cache": {fleet + "cache: {entries: 1}", "must be a whole number from 1000 to 10000000"},
		"a short ttl":   {fleet + "cache: {ttl: 1ms}", "cache.ttl:"},
		"no staleness":  {fleet + "cache: {max_stale: 0s}", "cache.max_stale:"},
		"a slip":        {fleet + "identity: {max_age: 1m}", "identity.max_age"},
		"one id for two": {fleet + "tenants:\n- {id: a, keys: [{id: abcdefghijklmnop, hash_file: f}]}\n- {id: b, " +
			"keys: [{id: abcdefghijklmnop, hash_file: f}]}\n",
			"f:4: tenants[1].keys[0].id: abcdefghijklmnop is already at tenants[0].keys[0].id, in line 3"},
	} {
		_, err := config.Parse("f", []byte(test.file))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", name, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), secret[20:]) {
			t.Errorf("%s: the error tells a secret: %v", name, err)
		}
	}
}
