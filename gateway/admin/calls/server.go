package calls

import (
	"context"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/gateway/admin/watch"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/search"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/recent"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

const (
	maxName = 256 // bytes of a filter
	invalid = "CALLS_INVALID"
)

// pages sets the page sizes of lists of calls.
var pages = paging.Bounds{Standard: 100, Most: 500, Reason: invalid}

// Config configures a Service. All fields but Link are required.
type Config struct {
	Recent *recent.Log
	Link   func(trace string) string // returns the URL of a trace; optional
}

// Service implements capgate.v1.Calls.
type Service struct {
	capgatepb.UnimplementedCallsServer
	Config
	watchers *watch.Slots // by watched tenant
	leave    context.CancelFunc
}

// New returns a Service. Leave ends its watches.
func New(cfg Config) *Service {
	leaving, leave := context.WithCancel(context.Background())
	return &Service{Config: cfg, watchers: watch.NewSlots(leaving, "call watchers", maxWatchers), leave: leave}
}

// Leave ends all watches before the gateway stops.
func (s *Service) Leave() { s.leave() }

// Operators returns the service of the admin API.
func (s *Service) Operators() admin.Service {
	service := admin.NewService[capgatepb.CallsServer](s, capgatepb.RegisterCallsServer,
		capgatepb.RegisterCallsHandlerServer)
	service.Serve = map[string]runtime.HandlerFunc{capgatepb.Calls_WatchCalls_FullMethodName: s.serveEvents}
	return service
}

// request has the common filters of a list and a watch.
type request interface {
	GetTenant() string
	GetUser() string
	GetAgent() string
	GetCapability() string
	GetTool() string
	GetReason() string
	GetCode() string
	GetOutcome() string
	GetMinDuration() string
	GetQuery() string
}

var refusedOff = &call.Refusal{Kind: call.FailedPrecondition, Reason: "CALLS_OFF",
	Message: "recent calls are off: calls.keep is 0 in the configuration"}

// filter parses the filters of a request, and restricts them to the operator's tenant. The error is a *call.Refusal.
func (s *Service) filter(ctx context.Context, r request) (f recent.Filter, err error) {
	if !s.Recent.On() {
		return f, refusedOff
	}
	f = recent.Filter{User: r.GetUser(), Agent: r.GetAgent(), Capability: r.GetCapability(), Tool: r.GetTool(),
		Reason: r.GetReason(), Code: strings.ToUpper(r.GetCode()), Outcome: r.GetOutcome()}
	for name, v := range map[string]string{"tenant": r.GetTenant(), "user": f.User, "agent": f.Agent, "tool": f.Tool,
		"capability": f.Capability, "reason": f.Reason, "code": f.Code, "outcome": f.Outcome} {
		if len(v) > maxName {
			return f, call.InvalidField(invalid, name, "it must have at most 256 bytes")
		}
	}
	if refusal := known(f.Code, f.Outcome); refusal != nil {
		return f, refusal
	}
	query, refusal := search.Read(invalid, r.GetQuery())
	if refusal != nil {
		return f, refusal
	}
	f.Query = query
	if text := r.GetMinDuration(); text != "" {
		if f.Took, err = time.ParseDuration(text); err != nil || f.Took < 0 {
			return f, call.InvalidField(invalid, "min_duration", "it must be a duration, such as 250ms or 1.5s")
		}
	}
	f.Tenants, err = operator.Tenants(ctx, r.GetTenant())
	return f, err
}

// ListCalls implements capgatepb.CallsServer.
func (s *Service) ListCalls(ctx context.Context, req *capgatepb.ListCallsRequest) (*capgatepb.ListCallsResponse,
	error) {
	f, err := s.filter(ctx, req)
	if err != nil {
		return nil, err
	}
	page, refusal := pages.Read(req)
	if refusal != nil {
		return nil, refusal
	}
	if req.GetStartTime() != nil || req.GetEndTime() != nil {
		return s.search(ctx, req, f, page)
	}
	all, partial := s.Recent.Calls(ctx)
	listed, next := paging.SliceDescending(page, all, (*recent.Call).Position, f.Matches)
	if len(listed) == 0 && len(f.Query) > 0 && !partial && s.Recent.Archived() {
		return s.search(ctx, req, f, page)
	}
	resp := &capgatepb.ListCallsResponse{Partial: partial, Replica: s.Recent.Replica(),
		NextPageToken: paging.Token(next)}
	for _, c := range listed {
		resp.Calls = append(resp.Calls, s.message(c))
	}
	return resp, nil
}
