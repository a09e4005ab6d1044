package admin

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/drains"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/router"
)

// maxBody bounds the body of a request, in bytes.
const maxBody = 4 << 10

// BackendDrains is a backend with its drains in each fleet.
type BackendDrains struct {
	Addr   string  `json:"addr"`
	Shared bool    `json:"shared"` // counts cover all replicas, which know of the drain; otherwise this one alone
	Drains []Drain `json:"drains"` // one for each fleet with the backend
}

// Drain is the state of a backend's drain in one fleet.
type Drain struct {
	Capability string     `json:"capability"`
	Drained    bool       `json:"drained"`
	Since      *time.Time `json:"since,omitempty"`
	By         string     `json:"by,omitempty"`      // the operator who began it
	InFlight   int64      `json:"in_flight"`         // calls in flight at all replicas
	Replicas   int        `json:"replicas"`          // number of replicas in the count
	Unheard    int        `json:"unheard"`           // replicas that do not drain it yet
	Changed    bool       `json:"changed,omitempty"` // the request began or ended the drain
}

// DrainRequest is the body of :drain and :undrain.
type DrainRequest struct {
	Capability string `json:"capability"` // only in this fleet; "": in all fleets with the backend
	Force      bool   `json:"force"`      // also if the fleet has no other backend
}

func (a *API) getBackend(w http.ResponseWriter, r *http.Request) {
	addr := r.PathValue("addr")
	fleets := a.having(addr, r.URL.Query().Get("capability"))
	if len(fleets) == 0 {
		unknownBackend(w, r, addr, r.URL.Query().Get("capability"))
		return
	}
	write(w, http.StatusOK, a.backend(addr, fleets))
}

// postBackend handles custom methods, which follow a colon.
func (a *API) postBackend(w http.ResponseWriter, r *http.Request) {
	target := r.PathValue("target")
	if addr, ok := strings.CutSuffix(target, ":drain"); ok {
		a.drain(w, r, addr, true)
	} else if addr, ok := strings.CutSuffix(target, ":undrain"); ok {
		a.drain(w, r, addr, false)
	} else {
		refuse(w, r, http.StatusNotFound, codes.NotFound, "NO_SUCH_PATH",
			"the methods of a backend are :drain and :undrain")
	}
}

func (a *API) drain(w http.ResponseWriter, r *http.Request, addr string, drained bool) {
	var req DrainRequest
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil && len(text) > 0 {
		err = strictjson.UnmarshalKnown(text, &req)
	}
	if err != nil {
		refuse(w, r, http.StatusBadRequest, codes.InvalidArgument, "INVALID_BODY",
			"the body must be JSON with no other fields than capability and force")
		return
	}
	fleets := a.having(addr, req.Capability)
	if len(fleets) == 0 {
		unknownBackend(w, r, addr, req.Capability)
		return
	}
	var keys []drains.Key
	var bare []string
	for _, f := range fleets {
		keys = append(keys, drains.Key{Capability: f.Capability, Addr: addr})
		if f.UsableWithout(addr) == 0 {
			bare = append(bare, f.Capability)
		}
	}
	if drained && !req.Force && len(bare) > 0 {
		refuse(w, r, http.StatusBadRequest, codes.FailedPrecondition, "LAST_BACKEND",
			"no other backend could take the calls of "+strings.Join(bare, ", ")+
				": they would be refused; set force to drain it all the same")
		return
	}
	before := a.backend(addr, fleets)
	shared, err := a.cfg.Drains.Set(r.Context(), keys, drained, operator.Authenticated(r.Context()))
	if errors.Is(err, drains.ErrFull) {
		refuse(w, r, http.StatusTooManyRequests, codes.ResourceExhausted, "TOO_MANY_DRAINS", err.Error())
		return
	}
	what := "backend.undrained"
	if drained {
		what = "backend.drained"
	}
	for _, k := range keys {
		a.cfg.Audit.RecordChange(&audit.Change{Actor: operator.NameOf(r.Context(), ""), What: what,
			Targets: []audit.Target{{Name: "capability", Value: k.Capability}, {Name: "backend", Value: addr}}})
	}
	answer := a.backend(addr, fleets)
	answer.Shared = shared
	for i := range answer.Drains {
		answer.Drains[i].Changed = before.Drains[i].Drained != drained
	}
	write(w, http.StatusOK, answer)
}

// having returns the fleets with a backend, or only that of a capability.
func (a *API) having(addr, capability string) []*router.Fleet {
	var fleets []*router.Fleet
	for _, f := range a.cfg.Router.Table().Fleets() {
		if capability != "" && f.Capability != capability {
			continue
		}
		for _, b := range f.Backends {
			if b.Addr == addr {
				fleets = append(fleets, f)
				break
			}
		}
	}
	return fleets
}

func (a *API) backend(addr string, fleets []*router.Fleet) BackendDrains {
	answer := BackendDrains{Addr: addr, Shared: true, Drains: []Drain{}}
	for _, f := range fleets {
		left := a.cfg.Drains.Remaining(drains.Key{Capability: f.Capability, Addr: addr})
		d := Drain{Capability: f.Capability, Drained: left.Drained, InFlight: left.Calls, Replicas: left.Replicas,
			Unheard: left.Unacknowledged}
		if left.Drained {
			since := left.Since.UTC().Truncate(time.Second)
			d.Since, d.By = &since, left.By
		} else {
			d.Unheard = 0
		}
		answer.Shared = answer.Shared && left.Shared
		answer.Drains = append(answer.Drains, d)
	}
	return answer
}

func unknownBackend(w http.ResponseWriter, r *http.Request, addr, capability string) {
	detail := "no fleet has the backend " + addr
	if capability != "" {
		detail = "no fleet " + capability + " has the backend " + addr
	}
	refuse(w, r, http.StatusNotFound, codes.NotFound, "BACKEND_UNKNOWN", detail)
}
