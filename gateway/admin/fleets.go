package admin

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/internal/lib/nearest"
	"github.com/capgate/capgate/router"
)

// maxNamedFleets bounds the fleets that an error names.
const maxNamedFleets = 20

// Page sizes of fleets.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// Fleets is a page of fleets.
type Fleets struct {
	Gateway       Gateway `json:"gateway"`
	Fleets        []Fleet `json:"fleets"`
	NextPageToken string  `json:"next_page_token,omitempty"` // token of the next page; "": this is the last
	TotalSize     int     `json:"total_size"`                // fleets on all pages
}

// Fleet is a capability and its backends.
type Fleet struct {
	Name       string `json:"name"` // fleets/CAPABILITY
	Capability string `json:"capability"`
	Usable     int    `json:"usable"`          // backends that get calls
	Panic      bool   `json:"panic,omitempty"` // so few are healthy that calls go to all that are not certainly dead
	// Waiting is the number of this replica's calls that wait for a backend below max_concurrent.
	Waiting  int       `json:"waiting,omitempty"`
	Backends []Backend `json:"backends"`
	// UpdateTime is the last time that a backend changed its state.
	UpdateTime *time.Time `json:"update_time,omitempty"`
}

// Backend is one server of a fleet.
type Backend struct {
	Name      string     `json:"name"` // fleets/CAPABILITY/backends/ADDR
	Addr      string     `json:"addr"`
	State     string     `json:"state"` // up, down, unknown, ejected, draining, off or ramping
	Why       string     `json:"why,omitempty"`
	Since     *time.Time `json:"since,omitempty"`
	Usable    bool       `json:"usable"`
	ProbedBy  string     `json:"probed_by,omitempty"` // the replica
	Dialect   string     `json:"dialect,omitempty"`   // only backends of Selu's protocol have one
	Zone      string     `json:"zone,omitempty"`
	Weight    int        `json:"weight"`
	Session   string     `json:"session,omitempty"`        // the only session that it serves
	Tenant    string     `json:"tenant,omitempty"`         // tenant of the session
	Limit     int        `json:"max_concurrent,omitempty"` // over all replicas
	InFlight  int64      `json:"in_flight"`                // of this replica
	LatencyMS float64    `json:"latency_ms"`               // expected by this replica; 0: unknown
	Source    string     `json:"source,omitempty"`         // config, dns or registration
}

func (a *API) listFleets(w http.ResponseWriter, r *http.Request) {
	size, ok := sizeOf(w, r, DefaultPage, MaxPage)
	if !ok {
		return
	}
	after, ok := afterOf(w, r)
	if !ok {
		return
	}
	fleets := slices.Clone(a.cfg.Router.Table().Fleets())
	if name := r.URL.Query().Get("capability"); name != "" {
		var known []string
		for _, f := range fleets {
			known = append(known, f.Capability)
		}
		fleets = slices.DeleteFunc(fleets, func(f *router.Fleet) bool { return f.Capability != name })
		if len(fleets) == 0 {
			refuse(w, r, http.StatusNotFound, codes.NotFound, "CAPABILITY_UNKNOWN",
				"no fleet serves this capability"+nearest.Hint(name, known)+"; the fleets are "+nearest.List(known, maxNamedFleets))
			return
		}
	}
	slices.SortFunc(fleets, func(x, y *router.Fleet) int { return strings.Compare(x.Capability, y.Capability) })
	page := Fleets{Gateway: a.cfg.Gateway(), Fleets: []Fleet{}, TotalSize: len(fleets)}
	first, found := slices.BinarySearchFunc(fleets, after,
		func(f *router.Fleet, name string) int { return strings.Compare(f.Capability, name) })
	if found {
		first++
	}
	for i, f := range fleets[first:] {
		if i == size {
			page.NextPageToken = tokenOf(fleets[first+i-1].Capability)
			break
		}
		page.Fleets = append(page.Fleets, a.fleet(f))
	}
	write(w, http.StatusOK, page)
}

func (a *API) fleet(f *router.Fleet) Fleet {
	stats := f.Stats()
	name := "fleets/" + url.PathEscape(f.Capability)
	fleet := Fleet{Name: name, Capability: f.Capability, Usable: stats.Usable, Panic: stats.Panic,
		Waiting: stats.Waiting, Backends: []Backend{}}
	for _, s := range f.Statuses() {
		b := Backend{
			Name: name + "/backends/" + url.PathEscape(s.Addr),
			Addr: s.Addr, State: s.State, Why: s.Reason, Usable: s.Usable, ProbedBy: s.Health.By,
			Zone: s.Config.Zone, Weight: s.Weight, Session: s.Session, Tenant: s.Tenant, Limit: s.Limit, InFlight: s.InFlight,
			LatencyMS: float64(s.Latency.Microseconds()) / 1000, Source: a.cfg.Source(f.Capability, s.Addr),
		}
		if f.Protocol().Traits().Dialects {
			b.Dialect = s.Dialect().String()
		}
		if !s.Since.IsZero() {
			since := s.Since.UTC().Truncate(time.Second)
			b.Since = &since
			if fleet.UpdateTime == nil || since.After(*fleet.UpdateTime) {
				fleet.UpdateTime = &since
			}
		}
		if a.cfg.ProbedBy != nil {
			b.ProbedBy = a.cfg.ProbedBy(f.Capability, s.Addr)
		}
		fleet.Backends = append(fleet.Backends, b)
	}
	return fleet
}
