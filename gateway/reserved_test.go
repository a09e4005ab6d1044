package gateway_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/router"
)

func TestReservedBackends(t *testing.T) {
	every(t, func(t *testing.T, client, backend call.Dialect) {
		for name, affinity := range map[string]router.Affinity{"with affinity": sticky, "without": {}} {
			r := newRoom(t, 4, backend)
			fleet := r.fleet(backend)
			fleet.Affinity, fleet.Reserved = affinity, map[string]string{r.addrs[0]: "mine", r.addrs[1]: "yours"}
			g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{fleet}})
			c := gatewaytest.NewClient(g.Conn(t), client)
			for i := range 30 {
				for session, want := range map[string]string{"mine": "b0", "yours": "b1", "": "b2 b3",
					fmt.Sprint(i): "b2 b3"} {
					served, err := inSession(t.Context(), c, session)
					if err != nil || !strings.Contains(want, served) {
						t.Fatalf("%s: session %q was served by %q, not %q: %v", name, session, served, want, err)
					}
				}
			}
		}
	})
}

// TestReservedBackendsOfATenant: a session belongs to its tenant. Another tenant's session with the same id
// goes to any other backend.
func TestReservedBackendsOfATenant(t *testing.T) {
	t.Parallel()
	for name, affinity := range map[string]router.Affinity{"with affinity": sticky, "without": {},
		"of artifacts": {Artifacts: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, ring, keys := newRoom(t, 3, call.Doc), newKeyring(), tenant.NewKeys(nil)
			keys.Replace(ring.keys, settings(t, map[string][]string{"acme": {"*"}, "globex": {"*"}}), nil)
			fleet := r.fleet(call.Doc)
			fleet.Affinity, fleet.Reserved, fleet.Tenant = affinity, map[string]string{r.addrs[0]: "mine"}, "acme"
			g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{fleet}, Authenticator: keys})
			c := gatewaytest.NewClient(g.Conn(t), call.Doc)
			for range 30 {
				for of, want := range map[string]string{"acme": "b0", "globex": "b1 b2"} {
					served, err := inSession(bearer(t.Context(), ring.credentials[of]), c, "mine")
					if err != nil || !strings.Contains(want, served) {
						t.Fatalf("the session of %s was served by %q, not %q: %v", of, served, want, err)
					}
				}
			}
		})
	}
}
