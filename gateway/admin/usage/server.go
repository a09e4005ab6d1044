package usage

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/paging"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// maxPage is the default and maximum number of tenants on a page.
const maxPage = 1000

// Quotas returns the usage of tenants' limits.
type Quotas interface {
	// UsageOf returns the usage of one tenant's limits; nil: that of a gateway without tenants.
	UsageOf(ctx context.Context, s *tenant.Settings) (ratelimit.Usage, error)
}

// New returns the service. The function tenants returns the existing tenants; nil: there is only tenant.Default.
func New(q Quotas, tenants func() *tenant.Roster, gateway func() *capgatepb.RespondingReplica) admin.Service {
	service := admin.NewService[capgatepb.UsageServer](&server{quotas: q, tenants: tenants, gateway: gateway},
		capgatepb.RegisterUsageServer, capgatepb.RegisterUsageHandlerServer)
	service.Query = paging.Unreadable
	return service
}

// server is capgate.v1.Usage.
type server struct {
	capgatepb.UnimplementedUsageServer
	quotas  Quotas
	tenants func() *tenant.Roster
	gateway func() *capgatepb.RespondingReplica
}

// ListUsage implements capgatepb.UsageServer.
func (s *server) ListUsage(ctx context.Context, req *capgatepb.ListUsageRequest) (*capgatepb.ListUsageResponse, error) {
	page := &capgatepb.ListUsageResponse{Gateway: s.gateway()}
	named := req.GetTenant()
	ids, err := operator.Tenants(ctx, named)
	switch {
	case err != nil:
		return nil, refusalOf(err)
	case len(ids) == 1 && ids[0] == named:
		if err = s.tenants().Check(ctx, named); err == nil {
			err = s.add(ctx, page, named, true)
		}
	default:
		size, refusal := paging.Size(req, maxPage, maxPage)
		if refusal != nil {
			return nil, refusal
		}
		after, refusal := paging.After(req)
		if refusal != nil {
			return nil, refusal
		}
		err = s.fill(ctx, page, ids, after, size)
	}
	if err != nil {
		return nil, refusalOf(err)
	}
	return page, nil
}

// fill adds the tenants with limits among some ids, after one; nil: among all. It looks at size tenants at most.
func (s *server) fill(ctx context.Context, page *capgatepb.ListUsageResponse, ids []string, after string,
	size int) (err error) {
	var next string
	if ids == nil {
		if ids, next, err = s.tenants().Page(ctx, after, size); err != nil {
			return err
		}
	} else {
		ids = slices.DeleteFunc(slices.Sorted(slices.Values(ids)), func(id string) bool { return id <= after })
		if len(ids) > size {
			ids = ids[:size]
			next = ids[size-1]
		}
	}
	for _, id := range ids {
		if err = s.add(ctx, page, id, false); err != nil {
			return err
		}
	}
	if next != "" {
		page.NextPageToken = paging.Token(next)
	}
	return nil
}

// add adds a tenant to a page. One without limits is left out, unless it is the only one.
func (s *server) add(ctx context.Context, page *capgatepb.ListUsageResponse, id string, only bool) error {
	var settings *tenant.Settings
	if tenants := s.tenants(); tenants != nil {
		found, refusal := tenants.Directory.Settings(ctx, id)
		if refusal != nil {
			return refusal
		}
		if settings = found; settings == nil { // it was deleted since it was listed
			return nil
		}
	}
	u, err := s.quotas.UsageOf(ctx, settings)
	if err != nil {
		return err
	}
	if only || len(u.Limits) > 0 {
		u.Tenant = id
		page.Tenants = append(page.Tenants, usageOf(&u))
	}
	return nil
}

// refusalOf returns an error as a refusal. An error of the store means that it is away.
func refusalOf(err error) *call.Refusal {
	var refusal *call.Refusal
	if !errors.As(err, &refusal) {
		return &call.Refusal{Kind: call.Unavailable, Reason: "USAGE_UNAVAILABLE",
			Message: "the usage of limits cannot be read from Redis; try again later"}
	}
	kind := refusal.Kind
	if kind != call.NotFound && kind != call.PermissionDenied {
		kind = call.Unavailable
	}
	return &call.Refusal{Kind: kind, Reason: refusal.Reason, Message: refusal.Message}
}

func usageOf(u *ratelimit.Usage) *capgatepb.TenantInUse {
	t := &capgatepb.TenantInUse{Tenant: u.Tenant, Shadow: u.Shadow}
	for _, l := range u.Limits {
		t.Limits = append(t.Limits, &capgatepb.LimitInUse{Limit: l.Limit.String(), Per: l.Name.Per,
			Capability: l.Name.Capability, Tool: l.Name.Tool, Max: small(l.Most), Burst: small(l.Burst), Used: l.Used,
			Held: small(l.Held), Apart: small(int64(l.Apart))})
	}
	return t
}

// small returns a number as JSON has it without quotes.
func small(n int64) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }
