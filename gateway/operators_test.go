package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

func TestOperatorsPort(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{
		{Capability: "alive", Backends: []string{gatewaytest.NewCapability("a").Serve(t, call.Doc).Addr,
			gatewaytest.Unreachable(t)}},
		{Capability: "dead", Backends: []string{check.ClosedPort(t)}},
	}})
	for path, want := range map[string]string{
		"/livez":                         "ok\n",
		"/readyz":                        `"fleets":2,"fleets_usable":1,"fleets_unusable":[{"capability":"dead","backends":1,"usable":0}]`,
		"/readyz?verbose":                `{"capability":"alive","backends":2,"usable":1}`,
		"/metrics":                       "# TYPE capgate_calls_in_flight gauge",
		"/debug/pprof/":                  "goroutine",
		"/debug/pprof/cmdline":           "",
		"/debug/pprof/goroutine?debug=1": "gateway/relay",
		"/":                              "/readyz",
	} {
		if status, body := g.Admin(t, path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %.300s", path, status, body)
		}
	}
	if status, _ := g.Admin(t, "/nothing"); status != http.StatusNotFound {
		t.Errorf("/nothing: %d", status)
	}
}

// TestOperatorsPagesAreNotPublic: only the admin port serves the pages of the admin API.
func TestOperatorsPagesAreNotPublic(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	for _, protocol := range protocols {
		client := protocol.client(f.gateway, t)
		for _, path := range []string{"/metrics", "/livez", "/readyz", "/debug/pprof/", "/"} {
			resp, err := client.Get(f.gateway.URL(path))
			check.Must(t, err)
			var problem struct{ Reason string }
			if err := json.NewDecoder(resp.Body).Decode(&problem); err != nil ||
				resp.StatusCode != http.StatusNotFound || problem.Reason != "NO_SUCH_PATH" {
				t.Errorf("%s %s: %s %+v %v", protocol.name, path, resp.Status, problem, err)
			}
			resp.Body.Close()
		}
	}
}
