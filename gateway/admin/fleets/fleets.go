package fleets

import (
	"context"
	"net/url"
	"slices"
	"strings"
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
	slices.SortFunc(fleets, func(x, y *router.Fleet) int { return strings.Compare(x.Capability, y.Capability) })
	listed, next := paging.Slice(page, fleets, func(f *router.Fleet) string { return f.Capability })
	resp := &capgatepb.ListFleetsResponse{Gateway: s.Gateway(), TotalSize: restjson.Int32(len(fleets)),
		NextPageToken: paging.Token(next)}
	for _, f := range listed {
		resp.Fleets = append(resp.Fleets, s.fleet(f))
	}
	return resp, nil
}

func (s *server) fleet(f *router.Fleet) *capgatepb.Fleet {
	stats := f.Stats()
	fleet := &capgatepb.Fleet{Name: "fleets/" + url.PathEscape(f.Capability), Capability: f.Capability,
		Usable: restjson.Int32(stats.Usable), Panic: stats.Panic, Waiting: restjson.Int32(stats.Waiting)}
	var updated time.Time
	for _, of := range f.Statuses() {
		b := &capgatepb.Backend{
			Name: fleet.GetName() + "/backends/" + url.PathEscape(of.Addr),
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
			if of.Since.After(updated) {
				updated, fleet.UpdateTime = of.Since, b.GetSince()
			}
		}
		if s.ProbedBy != nil {
			b.ProbedBy = s.ProbedBy(f.Capability, of.Addr)
		}
		fleet.Backends = append(fleet.Backends, b)
	}
	return fleet
}

// seconds returns a time truncated to seconds.
func seconds(t time.Time) *timestamppb.Timestamp { return timestamppb.New(t.Truncate(time.Second)) }
