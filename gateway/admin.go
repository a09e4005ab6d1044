package gateway

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/capgate/capgate/console"
	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/internal/lib/accept"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// maxUnusable bounds the fleets that /readyz names to operators without ?verbose.
const maxUnusable = 20

// Readiness describes for load balancers and operators whether the gateway can take traffic.
type Readiness struct {
	Ready    bool             // the gateway can serve: it listens and has a configuration
	Draining bool             // the gateway is stopping and takes no new calls
	Audit    string           // "failing" if calls cannot be recorded; empty otherwise
	Unread   []string         // stored state that has not been read since the start
	CutOff   bool             // this replica reaches no backend, but others do
	Redis    string           // ok, away (calls continue with cached state) or embedded; empty without Redis
	Warnings []string         // degraded features; they do not affect Ready
	Waiting  []FleetCalls     // calls that delay a drain; nil without a drain or such calls
	Fleets   []FleetReadiness // in any order
	Config   *ConfigState     // optional
}

// ConfigState is the state of the configuration. It never makes a gateway unready, because the previous configuration
// stays in effect.
type ConfigState struct {
	LoadedAt time.Time `json:"loaded_at"` // load time of the configuration in effect
	// Error says why the newest configuration is not in effect: file, line, field and reason, one problem per line.
	Error string `json:"error,omitempty"`
	// NeedsRestart lists changed fields that take effect only after a restart.
	NeedsRestart []string `json:"needs_restart,omitempty"`
}

// FleetReadiness is the health of a fleet.
type FleetReadiness struct {
	Capability string `json:"capability"`
	Backends   int    `json:"backends"` // configured or registered
	Usable     int    `json:"usable"`   // able to take a call now
}

// AdminConfig configures the handler of the admin API.
type AdminConfig struct {
	Ready   func() Readiness // called for every /readyz, from any goroutine; nil means always ready
	Metrics http.Handler     // serves /metrics; nil means no such page
	API     func(*guard.Mux) // adds the routes below /v1/; optional
	Guard   *guard.Guard     // authenticates operators; nil means no credential is required
	Hosts   *web.Hosts       // host names that the port accepts; nil means any
	Console http.Handler     // serves / to browsers, and /console/; nil means browsers get the index
}

// NewAdmin returns the handler of the admin API: liveness, readiness, metrics, profiles and the API. The error names
// routes without a role.
func NewAdmin(cfg AdminConfig) (http.Handler, error) {
	if cfg.Guard == nil {
		cfg.Guard = guard.Insecure()
	}
	a := &admin{mux: guard.NewMux(), cfg: cfg}
	a.page("/livez", "the process answers", http.HandlerFunc(livez))
	a.page("/readyz", "200 when calls may come here, 503 when not; operators get names, and with ?verbose all",
		http.HandlerFunc(a.readyz))
	if cfg.Metrics != nil {
		a.page("/metrics", "Prometheus", cfg.Metrics)
	}
	if cfg.API != nil {
		cfg.API(a.mux)
		a.list("/v1/fleets", "fleets and their backends; capgate status shows them")
	}
	a.page("/debug/pprof/", "profiles: go tool pprof http://<this>/debug/pprof/profile?seconds=10",
		http.HandlerFunc(pprof.Index))
	a.mux.HandleFunc("GET /debug/pprof/cmdline", cmdline)
	a.mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	a.mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	a.mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	a.mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	a.page(problem.Path, "what the reasons of errors mean", problem.Page())
	a.mux.HandleFunc("GET /{$}", a.index)
	if cfg.Console != nil {
		a.mux.Handle("GET /console/", cfg.Console)
	}
	guarded, err := cfg.Guard.Handler(a.mux)
	if err != nil {
		return nil, err
	}
	routes := rest.Conditional(guarded)
	if cfg.Hosts != nil {
		routes = cfg.Hosts.Admin(routes)
	}
	return web.Recover("operators")(problem.WithRequestID(problem.Check(problem.Plain(routes)))), nil
}

type admin struct {
	mux   *guard.Mux
	cfg   AdminConfig
	pages strings.Builder // the index; complete when NewAdmin returns
}

// page mounts a handler and lists it on the index.
func (a *admin) page(path, about string, h http.Handler) {
	a.mux.Handle("GET "+path, h)
	a.list(path, about)
}

func (a *admin) list(path, about string) { fmt.Fprintf(&a.pages, "%-14s %s\n", path, about) }

// index serves the console to browsers, and a list of pages to other clients.
func (a *admin) index(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	if a.cfg.Console != nil && accept.Named(r.Header, "text/html") {
		a.cfg.Console.ServeHTTP(w, r)
		return
	}
	plain(w, http.StatusOK, "capgate, operators' port\n\n"+a.pages.String())
}

// cmdline replaces the handler of pprof, which would show --redis and the password in it.
func cmdline(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "capgate") }

func livez(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusOK, "ok\n")
}

func plain(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // if the client has left, the error cannot be reported
}

// readinessBody is the JSON of /readyz. The embedded part is public.
type readinessBody struct {
	readinessCounts
	Without []FleetReadiness `json:"fleets_unusable"` // the first maxUnusable fleets without a usable backend
	// Degraded is true if Redis is away, the newest configuration is invalid, or calls cannot be recorded.
	Degraded bool             `json:"degraded,omitempty"`
	Redis    string           `json:"redis,omitempty"`
	Unread   []string         `json:"unread,omitempty"`  // state of Redis that has not been read since the start
	CutOff   bool             `json:"cut_off,omitempty"` // this replica reaches no backend, but others do
	Audit    string           `json:"audit,omitempty"`
	Warnings []string         `json:"warnings,omitempty"`      // degraded features
	Waiting  []FleetCalls     `json:"waiting,omitempty"`       // calls that delay a drain
	All      []FleetReadiness `json:"fleets_detail,omitempty"` // only with ?verbose
	Config   *ConfigState     `json:"config,omitempty"`
}

// readinessCounts is the part of readinessBody without names.
type readinessCounts struct {
	Ready    bool `json:"ready"`
	Draining bool `json:"draining"`
	Fleets   int  `json:"fleets"`        // number of fleets
	Usable   int  `json:"fleets_usable"` // fleets with at least one usable backend
}

// readyz responds with 503 only if the gateway as a whole cannot serve. A fleet without backends is its owner's
// problem, and must not take traffic away from the other fleets. Details, such as names of fleets and problems of the
// configuration, are only shown to operators of all tenants.
func (a *admin) readyz(w http.ResponseWriter, r *http.Request) {
	state := Readiness{Ready: true}
	if a.cfg.Ready != nil {
		state = a.cfg.Ready()
	}
	counts := readinessCounts{Ready: state.Ready && !state.Draining, Draining: state.Draining,
		Fleets: len(state.Fleets)}
	body := readinessBody{
		Redis: state.Redis, Unread: state.Unread, CutOff: state.CutOff, Audit: state.Audit, Warnings: state.Warnings,
		Waiting: state.Waiting, Without: []FleetReadiness{}, Config: state.Config,
		Degraded: state.Redis == "away" || state.Config != nil && state.Config.Error != "" || state.Audit != "",
	}
	for _, f := range state.Fleets {
		if f.Usable > 0 {
			counts.Usable++
		} else if len(body.Without) < maxUnusable {
			body.Without = append(body.Without, f)
		}
	}
	if r.URL.Query().Has("verbose") {
		body.All = state.Fleets
	}
	body.readinessCounts = counts
	var answer any = counts
	if guard.Permits(r.Context(), capgatepb.Fleets_ListFleets_FullMethodName) {
		answer = body
	}
	status := http.StatusOK
	if !counts.Ready {
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // if the client has left, the error cannot be reported
}

// newOperators returns the handler of the admin API.
func (g *Gateway) newOperators() (http.Handler, error) {
	return NewAdmin(AdminConfig{
		Ready: g.Readiness, Metrics: g.cfg.Observe.Metrics.Handler(), API: g.cfg.Admin.Services,
		Guard: g.cfg.Admin.Guard, Hosts: g.handler.hosts, Console: console.Handler(console.Console)})
}
