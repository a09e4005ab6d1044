package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/console"
	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

func get(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// Browsers get the console at /, other clients the list of pages.
func TestConsole(t *testing.T) {
	t.Parallel()
	h := newAdmin(t, gateway.AdminConfig{Console: console.Handler(console.Console)})
	for accept, want := range map[string]string{"text/html,*/*;q=0.8": `<div id="app">`, "*/*": "/readyz ",
		"": "/readyz "} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != 200 || !strings.Contains(w.Body.String(), want) || w.Header().Get("Vary") != "Accept" {
			t.Errorf("%q: %d %v %.200s", accept, w.Code, w.Header(), w.Body)
		}
	}
	if w := get(h, "GET", "/console/console.js"); w.Code != 200 {
		t.Errorf("the script: status %d", w.Code)
	}
}

func newAdmin(t *testing.T, cfg gateway.AdminConfig) http.Handler {
	t.Helper()
	h, err := gateway.NewAdmin(cfg)
	check.Must(t, err)
	return h
}

func TestAdminPages(t *testing.T) {
	t.Parallel()
	m, err := telemetry.NewMetrics(prometheus.NewRegistry(), telemetry.MetricsConfig{Version: "v1.2.3"})
	check.Must(t, err)
	h := newAdmin(t, gateway.AdminConfig{Metrics: m.Handler()})
	tests := []struct {
		method, path string
		status       int
		contains     string
	}{
		{"GET", "/", 200, "/readyz "},
		{"GET", "/", 200, "/metrics "},
		{"GET", "/livez", 200, "ok"},
		{"HEAD", "/livez", 200, ""},
		{"POST", "/livez", 405, ""},
		{"GET", "/readyz", 200, `"ready":true`},
		{"GET", "/metrics", 200, `version="v1.2.3"`},
		{"GET", "/metrics", 200, "go_goroutines"},
		{"GET", "/debug/pprof/", 200, "goroutine"},
		{"GET", "/debug/pprof/goroutine?debug=1", 200, "goroutine profile"},
		{"GET", "/debug/pprof/heap", 200, ""},
		{"GET", "/debug/pprof/cmdline", 200, ""},
		{"GET", "/debug/pprof/symbol", 200, "num_symbols"},
		{"GET", "/nothing", 404, ""},
	}
	for _, tt := range tests {
		t.Run(tt.method+tt.path, func(t *testing.T) {
			t.Parallel()
			w := get(h, tt.method, tt.path)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.contains) {
				t.Errorf("status %d, body %.200q", w.Code, w.Body)
			}
		})
	}
	if w := get(h, "GET", "/debug/pprof/cmdline"); w.Body.String() != "capgate" { // the arguments may have passwords
		t.Errorf("the command line: %s", w.Body)
	}
	if w := get(newAdmin(t, gateway.AdminConfig{}), "GET", "/metrics"); w.Code != 404 {
		t.Errorf("/metrics without metrics: %d", w.Code)
	}
}

func TestReadyz(t *testing.T) {
	t.Parallel()
	weather := gateway.FleetReadiness{Capability: "weather", Backends: 2, Usable: 1}
	empty := gateway.FleetReadiness{Capability: "empty", Backends: 3}
	many := make([]gateway.FleetReadiness, 1000)
	for i := range many {
		many[i].Capability = fmt.Sprintf("c%d", i)
	}
	tests := []struct {
		name, query string
		state       gateway.Readiness
		status      int
		want        string // exact, or a prefix if it ends in …
	}{
		{"ready", "", gateway.Readiness{Ready: true, Fleets: []gateway.FleetReadiness{weather}}, 200,
			`{"ready":true,"draining":false,"fleets":1,"fleets_usable":1,"fleets_unusable":[]}`},
		{"not ready", "", gateway.Readiness{}, 503,
			`{"ready":false,"draining":false,"fleets":0,"fleets_usable":0,"fleets_unusable":[]}`},
		{"draining", "", gateway.Readiness{Ready: true, Draining: true}, 503,
			`{"ready":false,"draining":true,"fleets":0,"fleets_usable":0,"fleets_unusable":[]}`},
		{"redis is away", "", gateway.Readiness{Ready: true, Redis: "away"}, 200,
			`{"ready":true,"draining":false,"fleets":0,"fleets_usable":0,"fleets_unusable":[],"degraded":true,"redis":"away"}`},
		{"the newest configuration is bad", "",
			gateway.Readiness{Ready: true, Redis: "ok", Config: &gateway.ConfigState{Error: "line 1"}}, 200,
			`{"ready":true,"draining":false,"fleets":0,"fleets_usable":0,"fleets_unusable":[],"degraded":true,"redis":"ok",…`},
		{"one fleet is down", "", gateway.Readiness{Ready: true, Fleets: []gateway.FleetReadiness{weather, empty}}, 200,
			`{"ready":true,"draining":false,"fleets":2,"fleets_usable":1,"fleets_unusable":[{"capability":"empty","backends":3,"usable":0}]}`},
		{"verbose", "?verbose", gateway.Readiness{Ready: true, Fleets: []gateway.FleetReadiness{weather}}, 200,
			`{"ready":true,"draining":false,"fleets":1,"fleets_usable":1,"fleets_unusable":[],"fleets_detail":[{"capability":"weather","backends":2,"usable":1}]}`},
		{"many fleets are down", "", gateway.Readiness{Ready: true, Fleets: many}, 200,
			`{"ready":true,"draining":false,"fleets":1000,"fleets_usable":0,…`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newAdmin(t, gateway.AdminConfig{Ready: func() gateway.Readiness { return tt.state }})
			w := get(h, http.MethodGet, "/readyz"+tt.query)
			got := strings.TrimSpace(w.Body.String())
			start, partly := strings.CutSuffix(tt.want, "…")
			if w.Code != tt.status || !strings.HasPrefix(got, start) || !partly && got != start {
				t.Errorf("status %d, want %d\ngot  %s\nwant %s", w.Code, tt.status, got, tt.want)
			}
			if n := strings.Count(got, `"capability"`); n > 20 {
				t.Errorf("%d fleets are named", n)
			}
		})
	}
}

// TestReadyzNamesNothing: without a role for all tenants, /readyz returns only numbers. The status code is the
// same.
func TestReadyzNamesNothing(t *testing.T) {
	t.Parallel()
	state := gateway.Readiness{Ready: true, Redis: "away", Warnings: []string{"a warning"}, Audit: "failing",
		Config: &gateway.ConfigState{Error: "secret.yaml:1: bad", NeedsRestart: []string{"listen"}},
		Fleets: []gateway.FleetReadiness{{Capability: "secret", Backends: 1}, {Capability: "open", Usable: 1}}}
	keys := guard.NewKeys(nil)
	var known []guard.Key
	bearer := map[string]string{"nobody": "", "unknown": "Bearer nonsense"}
	for _, k := range []guard.Key{{Name: "one tenant", Tenant: "acme", Roles: operator.Admin},
		{Name: "viewer", Roles: operator.View}} {
		id, secret := tenant.NewCredential()
		k.ID, k.Hash = id, tenant.HashOf(secret, nil)
		known, bearer[k.Name] = append(known, k), "Bearer "+tenant.Credential(id, secret)
	}
	keys.Replace(known, nil)
	h := newAdmin(t, gateway.AdminConfig{Ready: func() gateway.Readiness { return state },
		Guard: guard.New(guard.Config{Authenticators: []guard.Authenticator{keys}})})
	const counts = `{"ready":true,"draining":false,"fleets":2,"fleets_usable":1`
	for name, header := range bearer {
		r := httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		want := counts + "}\n"
		if name == "viewer" {
			want = counts + `,"fleets_unusable":[{"capability":"secret","backends":1,"usable":0}],"degraded":true,` +
				`"redis":"away","audit":"failing","warnings":["a warning"],"config":{"loaded_at":"0001-01-01T00:00:00Z",` +
				`"error":"secret.yaml:1: bad","needs_restart":["listen"]}}` + "\n"
		}
		if w.Code != http.StatusOK || w.Body.String() != want {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
