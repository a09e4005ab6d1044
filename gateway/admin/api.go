package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/drains"
	"github.com/capgate/capgate/router"
)

// Drains stores the drained backends for all replicas.
type Drains interface {
	Set(ctx context.Context, keys []drains.Key, drained bool, by string) (shared bool, err error)
	Remaining(drains.Key) drains.Remaining
}

// Config has the dependencies of an API. Only Source, ProbedBy and Audit may be nil.
type Config struct {
	Router  *router.Router
	Drains  Drains
	Gateway func() Gateway                       // the replica, for each response
	Source  func(capability, addr string) string // source of a backend: config, dns or registration
	// ProbedBy returns the replica that probes a backend. The router does not learn of a change of that alone.
	// Default: the replica that the router knows.
	ProbedBy func(capability, addr string) string
	Audit    *audit.Log // of drains; nil: none
}

// Gateway is the replica that responds.
type Gateway struct {
	Replica string `json:"replica"`
	Redis   string `json:"redis"` // ok, away or embedded
}

// API serves the JSON routes of the admin API.
type API struct{ cfg Config }

// New returns an API.
func New(cfg Config) *API {
	if cfg.Source == nil {
		cfg.Source = func(string, string) string { return "" }
	}
	return &API{cfg}
}

// Mount adds the API's routes to a mux.
func (a *API) Mount(mux *guard.Mux) {
	mux.HandleFunc("GET /v1/fleets", a.listFleets)
	mux.HandleFunc("GET /v1/backends/{addr}", a.getBackend)
	mux.HandleFunc("POST /v1/backends/{target}", a.postBackend)
}

// write writes a JSON response. A client may cache the response to a GET and revalidate it: rest.Conditional.
func write(w http.ResponseWriter, status int, body any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(body); err != nil { // every body of this package can be encoded
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // an error means that the client has left
}

func refuse(w http.ResponseWriter, r *http.Request, status int, code codes.Code, reason, detail string) {
	w.Header().Set("Cache-Control", "no-store")
	problem.Write(w, r, problem.Own(status, code, reason, detail))
}
