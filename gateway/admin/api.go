package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/drains"
	"github.com/capgate/capgate/router"
)

// Drains keeps which backends are drained, for all replicas.
type Drains interface {
	Set(ctx context.Context, keys []drains.Key, drained bool) (shared bool, err error)
	Remaining(drains.Key) drains.Remaining
}

// Config is what an API is made of. Only Source and ProbedBy may be nil.
type Config struct {
	Router  *router.Router
	Drains  Drains
	Gateway func() Gateway                       // of each answer
	Source  func(capability, addr string) string // what names a backend: config, dns or registration
	// ProbedBy is the replica that probes a backend. The router is not told when only that
	// changes. Default what the router was told last.
	ProbedBy func(capability, addr string) string
}

// Gateway is the replica that answers.
type Gateway struct {
	Replica string `json:"replica"`
	Redis   string `json:"redis"` // ok, away or embedded
}

// API answers operators.
type API struct{ cfg Config }

// New makes an API.
func New(cfg Config) *API {
	if cfg.Source == nil {
		cfg.Source = func(string, string) string { return "" }
	}
	return &API{cfg}
}

// Mount adds what the API serves to a mux.
func (a *API) Mount(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/fleets", a.listFleets)
	mux.HandleFunc("GET /v1/backends/{addr}", a.getBackend)
	own := ownPages() // an operator's browser may show others' pages
	mux.Handle("POST /v1/backends/{target}", own.Handler(http.HandlerFunc(a.postBackend)))
}

// write answers with JSON. A GET's reader may keep it, and ask each time whether it is still so: rest.Conditional.
func write(w http.ResponseWriter, status int, body any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil { // of what is written here there is nothing that could not be
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the reader left: nobody to tell
}

func refuse(w http.ResponseWriter, r *http.Request, status int, code codes.Code, reason, detail string) {
	w.Header().Set("Cache-Control", "no-store")
	problem.Write(w, r, problem.Own(status, code, reason, detail))
}

// ownPages refuses what a browser sends for a page of another site.
func ownPages() *http.CrossOriginProtection {
	p := http.NewCrossOriginProtection()
	p.SetDenyHandler(http.HandlerFunc(problem.CrossSite))
	return p
}
