package cli

import (
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// TestLabelsOfDeletedTenants: a gateway that learns late that a tenant was deleted, because Redis was away, then
// gives its label to another tenant.
func TestLabelsOfDeletedTenants(t *testing.T) {
	t.Parallel()
	for what, deletes := range map[string]func(*testing.T, *keyedGateways){
		"it was deleted meanwhile": func(t *testing.T, g *keyedGateways) {
			g.run(t, 0, "tenants", "rm", "acme", "--force")
		},
		"Redis came back empty": func(_ *testing.T, g *keyedGateways) { g.redis.Do("FLUSHALL") },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			g := &keyedGateways{redis: redistest.Start(t)}
			way := redistest.NewProxy(t, "tcp", g.redis.Addr) // of the second gateway only
			backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
			for _, to := range []string{g.redis.Addr + "', timeout: 10s}", way.Addr + "', timeout: 2s}"} {
				_, public, admin := serve(t, nil, "--config",
					writeConfig(t, configOf("redis: {url: 'redis://"+to+"\noverload: {max_delay: 10s}\n"+
						"identity: {store: redis}\ncache: {max_stale: 10s}\nmetrics: {tenants: 1}", backend)))
				g.clients, g.publics, g.admins = append(g.clients, dial(t, public)), append(g.publics, public),
					append(g.admins, admin)
			}
			enter := func(id string) {
				g.run(t, 0, "tenants", "create", id, "--capabilities", "caps")
				_, key := g.key(t, "create", id)
				g.until(t, key, "")
			}
			ready, metrics := "http://"+g.admins[1]+"/readyz", "http://"+g.admins[1]+"/metrics"
			enter("acme")
			waitPage(t, metrics, `capgate_tenant_calls_total{code="OK",tenant="acme"}`)
			enter("globex")
			waitPage(t, metrics, `capgate_tenant_calls_total{code="OK",tenant="other"}`)

			way.BlackHole()
			way.Cut()
			waitPage(t, ready, `"redis":"away"`)
			deletes(t, g)
			if _, text := page(t, metrics); !strings.Contains(text, `tenant="acme"`) {
				t.Error("the label is free before the deletion was known")
			}
			way.Heal()
			waitPage(t, ready, `"redis":"ok"`)
			check.Until(t, "the label to be gone", func() (bool, string) {
				_, text := page(t, metrics)
				return !strings.Contains(text, `tenant="acme"`), "the label stays"
			})
			enter("next")
			waitPage(t, metrics, `capgate_tenant_calls_total{code="OK",tenant="next"}`)
		})
	}
}
