package fleets

import (
	"cmp"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/search"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	"github.com/capgate/capgate/router"
)

// failing is the state in requests that stands for the states of backends that fail.
const failing = "failing"

// states are the states of backends that a request can name.
var states = []string{"", failing, "up", "down", "unknown", "ejected", "draining", "off", "ramping"}

// view is which fleets a request lists, in which order, and with how many of their backends.
type view struct {
	query        search.Query
	state        string // "": any
	failingFirst bool
	most         int // backends of each fleet; 0: all
}

// fleetView is a fleet with the states of its backends at the time of a request.
type fleetView struct {
	*router.Fleet
	backends []router.BackendStatus
	failing  int    // backends
	position string // sort key
	named    bool   // the query matches the capability
}

func viewOf(req *capgatepb.ListFleetsRequest) (v view, refusal *call.Refusal) {
	if v.query, refusal = search.Read("INVALID_QUERY", req.GetQuery()); refusal != nil {
		return v, refusal
	}
	switch {
	case !slices.Contains(states, req.GetState()):
		return v, call.InvalidField("INVALID_QUERY", "state", "it must be failing, or a state of a backend: "+
			strings.Join(states[2:], ", "))
	case !slices.Contains([]string{"", "capability", failing}, req.GetOrderBy()):
		return v, call.InvalidField("INVALID_QUERY", "order_by", "it must be capability or failing")
	case req.GetBackends() < 0:
		return v, call.InvalidField("INVALID_QUERY", "backends", "it must be a non-negative number")
	}
	v.state, v.failingFirst, v.most = req.GetState(), req.GetOrderBy() == failing, int(req.GetBackends())
	return v, nil
}

func fails(b *router.BackendStatus) bool { return b.State == "down" || b.State == "ejected" }

// look returns the fleets that a view lists, in its order.
func (v *view) look(fleets []*router.Fleet) (all []fleetView) {
	for _, f := range fleets {
		of := fleetView{Fleet: f, backends: f.Statuses(), position: f.Capability, named: v.query.Matches(f.Capability)}
		for i := range of.backends {
			if fails(&of.backends[i]) {
				of.failing++
			}
		}
		if v.failingFirst {
			of.position = "1\x00" + f.Capability
			if of.failing > 0 {
				of.position = "0\x00" + f.Capability
			}
		}
		if v.lists(&of) {
			all = append(all, of)
		}
	}
	slices.SortFunc(all, func(a, b fleetView) int { return strings.Compare(a.position, b.position) })
	return all
}

// lists reports whether a view has a fleet: one backend has the state, and a backend or the fleet matches the query.
func (v *view) lists(of *fleetView) bool {
	if v.state == "" && of.named {
		return true
	}
	return slices.ContainsFunc(of.backends, func(b router.BackendStatus) bool {
		return v.has(&b) && (of.named || v.matches(of, &b))
	})
}

func (v *view) has(b *router.BackendStatus) bool {
	return v.state == "" || v.state == b.State || v.state == failing && fails(b)
}

func (v *view) matches(of *fleetView, b *router.BackendStatus) bool {
	return v.query.Matches(of.Capability, b.Addr, b.State, b.Reason, b.Config.Zone, b.Session, b.Tenant)
}

// first returns the backends of a fleet that a view lists.
func (v *view) first(of *fleetView) []router.BackendStatus {
	if v.most == 0 {
		return of.backends
	}
	rank := func(b router.BackendStatus) int {
		switch {
		case v.has(&b) && !of.named && v.matches(of, &b):
			return 0
		case v.state != "" && v.has(&b):
			return 1
		case fails(&b):
			return 2
		}
		return 3
	}
	sorted := slices.Clone(of.backends)
	slices.SortStableFunc(sorted, func(a, b router.BackendStatus) int { return cmp.Compare(rank(a), rank(b)) })
	return sorted[:min(v.most, len(sorted))]
}
