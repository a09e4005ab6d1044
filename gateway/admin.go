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

// Readiness is what the gateway says about itself to whoever sends it traffic.
type Readiness struct {
	Ready    bool             // it can serve: listening, configuration loaded
	Draining bool             // it is stopping and wants no new calls
	Audit    string           // failing: calls cannot be recorded; empty means they can, or need not
	Unread   []string         // state of the store that was not read since the start
	CutOff   bool             // this replica reaches no backend, and others do
	Redis    string           // ok, away (calls go on with what is known) or embedded; empty means none
	Warnings []string         // of what works, but not as it should; they make nothing unready
	Waiting  []FleetCalls     // whose calls delay a drain; nil means no drain, or no such call
	Fleets   []FleetReadiness // in any order
	Config   *ConfigState     // nil means nothing is to be said of it
}

// ConfigState is the state of the configuration. No state makes a gateway unready:
// what was in force before still is.
type ConfigState struct {
	LoadedAt time.Time `json:"loaded_at"` // when that in force was
	// why the newest is not in force; file, line, field and reason, one problem a line
	Error string `json:"error,omitempty"`
	// fields that were changed, and are in force only after a restart
	NeedsRestart []string `json:"needs_restart,omitempty"`
}

// FleetReadiness is one fleet as health sees it.
type FleetReadiness struct {
	Capability string `json:"capability"`
	Backends   int    `json:"backends"` // configured or registered
	Usable     int    `json:"usable"`   // that a call may be sent to now
}

// AdminConfig says what the operators' port shows.
type AdminConfig struct {
	Ready   func() Readiness // asked for every /readyz, from any goroutine; nil means always ready
	Metrics http.Handler     // serves /metrics; nil means no such page
	API     func(*guard.Mux) // adds what is below /v1/; nil means nothing
	Guard   *guard.Guard     // authenticates operators; nil means it asks nobody
	Hosts   *web.Hosts       // names that the port accepts; nil means any
	Console http.Handler     // serves / to browsers, and /console/; nil means browsers get the index too
}

// NewAdmin returns what the operators' port serves: liveness, readiness, metrics, profiles and the API. The error
// names routes for which no role is known.
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

// cmdline has the place of pprof's, which would show --redis and the password in it.
func cmdline(w http.ResponseWriter, _ *http.Request) { plain(w, http.StatusOK, "capgate") }

func livez(w http.ResponseWriter, _ *http.Request) {
	plain(w, http.StatusOK, "ok\n")
}

func plain(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // the reader left: nobody to tell
}

// readinessBody is the JSON of /readyz, of which everybody gets the embedded part.
type readinessBody struct {
	readinessCounts
	Without []FleetReadiness `json:"fleets_unusable"` // those without a usable backend, the first maxUnusable
	// it serves with what it knows: Redis is away, the newest configuration is bad, or calls cannot be recorded
	Degraded bool             `json:"degraded,omitempty"`
	Redis    string           `json:"redis,omitempty"`
	Unread   []string         `json:"unread,omitempty"`  // state of Redis that was not read since the start
	CutOff   bool             `json:"cut_off,omitempty"` // no backend is reached from here, and others reach some
	Audit    string           `json:"audit,omitempty"`
	Warnings []string         `json:"warnings,omitempty"`      // of what works, but not as it should
	Waiting  []FleetCalls     `json:"waiting,omitempty"`       // for which calls a drain waits
	All      []FleetReadiness `json:"fleets_detail,omitempty"` // with ?verbose
	Config   *ConfigState     `json:"config,omitempty"`
}

// readinessCounts are the part of readinessBody without names.
type readinessCounts struct {
	Ready    bool `json:"ready"`
	Draining bool `json:"draining"`
	Fleets   int  `json:"fleets"`        // how many there are
	Usable   int  `json:"fleets_usable"` // of them with at least one usable backend
}

// readyz answers 503 only for the gateway as a whole: a fleet without backends is
// its owner's trouble and no reason to take all the other fleets' traffic away. Details, such as names of fleets and
// problems of the configuration, are for operators of all tenants.
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
	_ = json.NewEncoder(w).Encode(answer) // the reader left: nobody to tell
}

// newOperators returns what the operators' port serves.
func (g *Gateway) newOperators() (http.Handler, error) {
	return NewAdmin(AdminConfig{
		Ready: g.Readiness, Metrics: g.cfg.Observe.Metrics.Handler(), API: g.cfg.Admin.Services,
		Guard: g.cfg.Admin.Guard, Hosts: g.handler.hosts, Console: console.Handler(console.Console)})
}
