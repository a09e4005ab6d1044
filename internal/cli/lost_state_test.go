package cli

import (
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestALossOfRedisRestoresNoCredential: after Redis has lost its data, a revoked key, and the keys of a disabled and of
// a deleted tenant, are rejected by replicas that knew them and by one that starts later. Tenants created again
// under the same ids do not get the former keys back.
func TestALossOfRedisRestoresNoCredential(t *testing.T) {
	t.Parallel()
	g := startKeyed(t)
	keys := map[string]string{}
	for _, tenant := range []string{"acme", "globex", "initech"} {
		g.run(t, 0, "tenants", "create", tenant, "--capabilities", "caps")
		_, keys[tenant] = g.key(t, "create", tenant)
		g.until(t, keys[tenant], "")
	}
	id, revoked := g.key(t, "create", "acme")
	g.until(t, revoked, "")
	g.run(t, 0, "keys", "revoke", "acme", id)
	g.run(t, 0, "tenants", "set", "globex", "--disabled")
	g.run(t, 0, "tenants", "rm", "initech", "--force")
	g.follows(t, revoked, "CREDENTIAL_INVALID")
	g.follows(t, keys["globex"], "TENANT_DISABLED")
	g.follows(t, keys["initech"], "CREDENTIAL_INVALID")

	_, unused := g.key(t, "create", "acme")
	g.redis.Do("FLUSHALL")
	rejected := func(when string) {
		t.Helper()
		for gateway := range g.clients {
			for what, key := range map[string]string{"a revoked key": revoked, "a disabled tenant": keys["globex"],
				"a deleted tenant": keys["initech"]} {
				if g.call(t, gateway, key) == "" {
					t.Errorf("%s: %s may call gateway %d", when, what, gateway)
				}
			}
		}
	}
	rejected("at once")
	_, public, admin := serve(t, nil, "--config", g.config)
	g.clients, g.admins = append(g.clients, dial(t, public)), append(g.admins, admin)
	for gateway := range g.clients { // by then each knows of the loss
		check.Holds(t, "a key that Redis has lost to be rejected", func() bool {
			return g.call(t, gateway, unused) != ""
		})
	}
	rejected("later")
	for tenant := range keys {
		g.run(t, 0, "tenants", "create", tenant, "--capabilities", "caps")
	}
	g.changed(t)
	rejected("with tenants that have these ids again")
}
