package summary

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/recent"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// Fleet is the health of a fleet.
type Fleet struct {
	Capability       string
	Backends, Usable int
}

// Drift is a capability with tools that have changed since they were accepted.
type Drift struct {
	Capability string
	Tools      int    // that have changed
	First      string // the name of one of them
}

// Port is the public port of this replica.
type Port struct {
	URL        string // public_url of the configuration; "" if there is none
	Number     int
	TLS        bool
	Credential bool // callers need a credential
}

// Pending is the number of pending approvals.
type Pending struct {
	Count  int
	Oldest time.Time
}

// NearLimit is a quota of which a tenant has used most.
type NearLimit struct {
	Tenant     string
	Period     string // such as "a day"
	Used, Most int64

	Per, Capability, Tool string // as in tenant.Limit
}

// Config holds the sources of a summary. Recent is required. The functions must be fast.
type Config struct {
	Recent *recent.Log
	Fleets func() []Fleet
	// Pending returns the pending approvals of tenants; nil means all tenants. An error means that they are unknown.
	Pending func(ctx context.Context, tenants []string) (Pending, error)
	Letters func(ctx context.Context) (int, error) // number of dead letters, up to a limit
	Drifted func() []Drift
	// Near returns at most most tenants that have used most of a quota, and about how many there are. It looks at
	// tenants; nil means all. It is optional.
	Near   func(ctx context.Context, tenants []string, most int) (near []NearLimit, all int, err error)
	Public func() Port
}

// New returns the service.
func New(cfg Config) admin.Service {
	s := &server{Config: cfg}
	return admin.NewService[capgatepb.SummaryServer](s, capgatepb.RegisterSummaryServer,
		capgatepb.RegisterSummaryHandlerServer)
}

// server implements capgate.v1.Summary.
type server struct {
	capgatepb.UnimplementedSummaryServer
	Config
}

// GetSummary implements capgatepb.SummaryServer.
func (s *server) GetSummary(ctx context.Context, req *capgatepb.GetSummaryRequest) (*capgatepb.GetSummaryResponse,
	error) {
	tenants, err := operator.Tenants(ctx, req.GetTenant())
	if err != nil {
		return nil, err
	}
	narrow := operator.AllTenants(ctx) != nil
	public := s.Public()
	resp := &capgatepb.GetSummaryResponse{Totals: &capgatepb.GetSummaryResponse_Totals{},
		PublicPort: &capgatepb.GetSummaryResponse_PublicPort{Url: public.URL, Port: int32(public.Number),
			Tls: public.TLS, CredentialRequired: public.Credential}}
	replicas, partial := s.Recent.Replicas(ctx)
	minutes, also := s.Recent.Minutes(ctx, tenants)
	resp.Partial = partial || also
	for i := range replicas {
		r := &replicas[i]
		if r.ID == s.Recent.Replica() {
			resp.Replica, resp.Version, resp.Ready, resp.Redis = r.ID, r.Version, r.Ready, r.Redis
		}
		if !narrow {
			resp.Replicas = append(resp.Replicas, replicaOf(r))
		}
	}
	for i := range minutes {
		m := &minutes[i]
		resp.Minutes = append(resp.Minutes, &capgatepb.GetSummaryResponse_Minute{Time: timestamppb.New(m.Began),
			Calls: restjson.Int32(m.Calls), Refusals: restjson.Int32(m.Refusals), Errors: restjson.Int32(m.Errors),
			Asked: restjson.Int32(m.Asked), ToolErrors: restjson.Int32(m.ToolErrors)})
		t := resp.GetTotals()
		t.Calls, t.Refusals = restjson.Int32(int64(t.GetCalls())+m.Calls),
			restjson.Int32(int64(t.GetRefusals())+m.Refusals)
		t.Errors, t.Asked = restjson.Int32(int64(t.GetErrors())+m.Errors), restjson.Int32(int64(t.GetAsked())+m.Asked)
		t.ToolErrors = restjson.Int32(int64(t.GetToolErrors()) + m.ToolErrors)
	}
	s.attend(ctx, resp, replicas, tenants, narrow)
	return resp, nil
}

func replicaOf(r *recent.Replica) *capgatepb.GetSummaryResponse_Replica {
	return &capgatepb.GetSummaryResponse_Replica{Id: r.ID, Version: r.Version, StartTime: timestamppb.New(r.Started),
		Ready: r.Ready, Redis: r.Redis, InFlight: restjson.Int32(r.InFlight), SeenTime: timestamppb.New(r.Seen),
		Draining: r.Draining}
}
