package fleets

import (
	"context"
	"net/url"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/nearest"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/restjson"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	"github.com/capgate/capgate/router"
)

// maxNamedFleets is the maximum number of fleets in an error.
const maxNamedFleets = 20

// MaxPage is the maximum number of fleets on a page.
const MaxPage = 1000

// pages sets the page sizes of lists of fleets.
var pages = paging.Bounds{Standard: 100, Most: MaxPage}

// ListFleets implements capgatepb.FleetsServer.
func (s *server) ListFleets(_ context.Context, req *capgatepb.ListFleetsRequest) (*capgatepb.ListFleetsResponse,
	error) {
	page, refusal := pages.Read(req)
	if refusal != nil {
		return nil, refusal
	}
	v, refusal := viewOf(req)
	if refusal != nil {
		return nil, refusal
	}
	fleets := slices.Clone(s.Router.Table().Fleets())
	if name := req.GetCapability(); name != "" {
		var known []string
		for _, f := range fleets {
			known = append(known, f.Capability)
		}
		fleets = slices.DeleteFunc(fleets, func(f *router.Fleet) bool { return f.Capability != name })
		if len(fleets) == 0 {
			return nil, &call.Refusal{Kind: call.NotFound, Reason: "CAPABILITY_UNKNOWN",
				Message: "no fleet serves this capability" + nearest.Hint(name, known) + "; the fleets are " +
					nearest.List(known, maxNamedFleets)}
		}
	}
	seen := v.look(fleets)
	listed, next := paging.Slice(page, seen, func(f fleetView) string { return f.position })
	resp := &capgatepb.ListFleetsResponse{Gateway: s.Gateway(), TotalSize: restjson.Int32(len(seen)),
		NextPageToken: paging.Token(next)}
	for i := range seen {
		resp.FailingCount += restjson.Int32(seen[i].failing)
	}
	for i := range listed {
		resp.Fleets = append(resp.Fleets, s.fleet(&v, &listed[i]))
	}
	return resp, nil
}

func (s *server) fleet(v *view, of *fleetView) *capgatepb.Fleet {
	f := of.Fleet
	stats := f.Stats()
	fleet := &capgatepb.Fleet{Name: "fleets/" + url.PathEscape(f.Capability), Capability: f.Capability,
		Usable: restjson.Int32(stats.Usable), Panic: stats.Panic, Waiting: restjson.Int32(stats.Waiting),
		BackendCount: restjson.Int32(len(of.backends)), FailingCount: restjson.Int32(of.failing)}
	var updated time.Time
	for i := range of.backends {
		if since := of.backends[i].Since; since.After(updated) {
			updated, fleet.UpdateTime = since, seconds(since)
		}
	}
	for _, b := range v.first(of) {
		fleet.Backends = append(fleet.Backends, s.member(f, fleet.GetName(), &b))
	}
	return fleet
}

// member returns the message of a backend of a fleet.
func (s *server) member(f *router.Fleet, fleet string, of *router.BackendStatus) *capgatepb.Backend {
	b := &capgatepb.Backend{
		Name: fleet + "/backends/" + url.PathEscape(of.Addr),
		Addr: of.Addr, State: of.State, Why: of.Reason, Usable: of.Usable, ProbedBy: of.Health.By,
		Zone: of.Config.Zone, Weight: restjson.Int32(of.Weight), Session: of.Session, Tenant: of.Tenant,
		MaxConcurrent: restjson.Int32(of.Limit), InFlight: restjson.Int32(of.InFlight),
		LatencyMs: float64(of.Latency.Microseconds()) / 1000, Source: s.Source(f.Capability, of.Addr),
	}
	if f.Protocol().Traits().Dialects {
		b.Dialect = of.Dialect().String()
	}
	if !of.Since.IsZero() {
		b.Since = seconds(of.Since)
	}
	if s.ProbedBy != nil {
		b.ProbedBy = s.ProbedBy(f.Capability, of.Addr)
	}
	return b
}

// seconds returns a time truncated to seconds.
func seconds(t time.Time) *timestamppb.Timestamp { return timestamppb.New(t.Truncate(time.Second)) }
