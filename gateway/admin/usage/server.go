package usage

import (
	"context"
	"errors"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/lib/restjson"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// pages sets the page sizes of lists of tenants.
var pages = paging.Bounds{Standard: 1000, Most: 1000}

// Quotas returns the usage of tenants' limits.
type Quotas interface {
	// UsageOf returns the usage of a tenant's limits; nil means a gateway without tenants.
	UsageOf(ctx context.Context, s *tenant.Settings) (ratelimit.Usage, error)
}

// New returns the service. The function tenants returns the existing tenants; nil means only tenant.Default exists.
func New(q Quotas, d Daily, tenants func() *tenant.Roster, gateway func() *capgatepb.RespondingReplica) admin.Service {
	service := admin.NewService[capgatepb.UsageServer](&server{quotas: q, daily: d, tenants: tenants, gateway: gateway},
		capgatepb.RegisterUsageServer, capgatepb.RegisterUsageHandlerServer)
	service.Unreadable = paging.Unreadable
	return service
}

// server implements capgate.v1.Usage.
type server struct {
	capgatepb.UnimplementedUsageServer
	quotas  Quotas
	daily   Daily
	tenants func() *tenant.Roster
	gateway func() *capgatepb.RespondingReplica
}

// ListUsage implements capgatepb.UsageServer.
func (s *server) ListUsage(ctx context.Context, req *capgatepb.ListUsageRequest) (*capgatepb.ListUsageResponse, error) {
	resp := &capgatepb.ListUsageResponse{Gateway: s.gateway()}
	named := req.GetTenant()
	ids, err := operator.Tenants(ctx, named)
	switch {
	case err != nil:
		return nil, refusalOf(err)
	case len(ids) == 1 && ids[0] == named:
		if err = s.tenants().Check(ctx, named); err == nil {
			err = s.add(ctx, resp, named, true)
		}
	default:
		page, refusal := pages.Read(req)
		if refusal != nil {
			return nil, refusal
		}
		err = s.fill(ctx, resp, ids, page)
	}
	if err != nil {
		return nil, refusalOf(err)
	}
	return resp, nil
}

// fill adds the tenants of a page that have limits. ids are the sorted candidates; nil means all tenants.
func (s *server) fill(ctx context.Context, to *capgatepb.ListUsageResponse, ids []string, page paging.Page) error {
	among := s.tenants().Page
	if ids != nil {
		among = paging.Among(ids)
	}
	ids, next, err := among(ctx, page.After, page.Size)
	for i := 0; i < len(ids) && err == nil; i++ {
		err = s.add(ctx, to, ids[i], false)
	}
	to.NextPageToken = paging.Token(next)
	return err
}

// add adds a tenant to a page. A tenant without limits is omitted, unless it is the only one.
func (s *server) add(ctx context.Context, to *capgatepb.ListUsageResponse, id string, only bool) error {
	var settings *tenant.Settings
	if tenants := s.tenants(); tenants != nil {
		found, refusal := tenants.Directory.Settings(ctx, id)
		if refusal != nil {
			return refusal
		}
		if settings = found; settings == nil { // it was deleted after it was listed
			return nil
		}
	}
	u, err := s.quotas.UsageOf(ctx, settings)
	if err != nil {
		return err
	}
	if only || len(u.Limits) > 0 {
		u.Tenant = id
		to.Tenants = append(to.Tenants, usageOf(&u))
	}
	return nil
}

// refusalOf returns an error as a refusal. An error of the store means that it is unavailable.
func refusalOf(err error) *call.Refusal {
	var refusal *call.Refusal
	if !errors.As(err, &refusal) {
		return &call.Refusal{Kind: call.Unavailable, Reason: "USAGE_UNAVAILABLE",
			Message: "the usage of limits cannot be read from Redis; try again later"}
	}
	kind := refusal.Kind
	if kind != call.NotFound && kind != call.PermissionDenied && kind != call.InvalidArgument {
		kind = call.Unavailable
	}
	return &call.Refusal{Kind: kind, Reason: refusal.Reason, Message: refusal.Message}
}

func usageOf(u *ratelimit.Usage) *capgatepb.TenantInUse {
	t := &capgatepb.TenantInUse{Tenant: u.Tenant, Shadow: u.Shadow}
	for _, l := range u.Limits {
		t.Limits = append(t.Limits, &capgatepb.LimitInUse{Limit: l.Limit.String(), Per: l.Name.Per,
			Capability: l.Name.Capability, Tool: l.Name.Tool, Max: restjson.Int32(l.Most),
			Burst: restjson.Int32(l.Burst), Used: l.Used, Held: restjson.Int32(l.Held),
			Apart: restjson.Int32(int64(l.Apart))})
	}
	return t
}
