package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
)

// tenantsPage is the default and maximum number of tenants on a page.
const tenantsPage = 1000

// Quotas returns the usage of tenants' limits.
type Quotas interface {
	// UsageOf returns the usage of one tenant's limits; nil: that of a gateway without tenants.
	UsageOf(ctx context.Context, s *tenant.Settings) (ratelimit.Usage, error)
}

// TenantsPage is a page of tenants with limits.
type TenantsPage struct {
	Gateway Gateway       `json:"gateway"`
	Tenants []TenantUsage `json:"tenants"`
	Next    string        `json:"next_page_token,omitempty"`
}

// TenantUsage is a tenant's usage of its limits.
type TenantUsage struct {
	Tenant string       `json:"tenant"`
	Shadow bool         `json:"shadow,omitempty"` // nothing is rejected
	Limits []LimitUsage `json:"limits"`
}

// LimitUsage is the usage of one limit.
type LimitUsage struct {
	Limit      string `json:"limit"`         // calls_per_second, concurrent, per_day or per_month
	Per        string `json:"per,omitempty"` // user, agent or capability; each value may use max
	Capability string `json:"capability,omitempty"`
	Tool       string `json:"tool,omitempty"`
	Max        int64  `json:"max"`
	Burst      int64  `json:"burst,omitempty"` // of calls_per_second: calls at once
	// Used is the usage. Of quotas it is that of all replicas, as last known, and per value the maximum of those that
	// called this replica recently. Of other limits it is that of this replica, and per value the sum: calls in the last
	// second, or concurrent calls.
	Used  float64 `json:"used"`
	Held  int64   `json:"held"`            // permits that this replica holds
	Apart int     `json:"apart,omitempty"` // values that are counted separately
}

// MountLimits adds GET /v1/limits?page_size=&page_token= to a mux, with &tenant= for one tenant. A page may be short. The
// argument tenants has the existing tenants; nil: there is only tenant.Default.
func MountLimits(mux *guard.Mux, q Quotas, tenants *tenant.Roster, who func() Gateway) {
	l := limits{q, tenants}
	mux.HandleFunc("GET /v1/limits", func(w http.ResponseWriter, r *http.Request) {
		page := TenantsPage{Gateway: who(), Tenants: []TenantUsage{}}
		named := r.URL.Query().Get("tenant")
		ids, err := operator.Tenants(r.Context(), named)
		switch {
		case err != nil:
			refuseLimits(w, r, err)
			return
		case len(ids) == 1 && ids[0] == named:
			if err = tenants.Check(r.Context(), named); err == nil {
				err = l.add(r.Context(), &page, named, true)
			}
		default:
			size, ok := sizeOf(w, r, tenantsPage, tenantsPage)
			if !ok {
				return
			}
			after, ok := afterOf(w, r)
			if !ok {
				return
			}
			err = l.fill(r.Context(), &page, ids, after, size)
		}
		if err != nil {
			refuseLimits(w, r, err)
			return
		}
		write(w, http.StatusOK, page)
	})
}

// limits answers requests for limits.
type limits struct {
	quotas  Quotas
	tenants *tenant.Roster
}

// fill adds the tenants with limits among some ids, after one; nil: among all. It looks at size tenants at most.
func (l limits) fill(ctx context.Context, page *TenantsPage, ids []string, after string, size int) (err error) {
	var next string
	if ids == nil {
		if ids, next, err = l.tenants.Page(ctx, after, size); err != nil {
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
		if err = l.add(ctx, page, id, false); err != nil {
			return err
		}
	}
	if next != "" {
		page.Next = tokenOf(next)
	}
	return nil
}

// add adds a tenant to a page. One without limits is left out, unless it is the only one.
func (l limits) add(ctx context.Context, page *TenantsPage, id string, only bool) error {
	var settings *tenant.Settings
	if l.tenants != nil {
		found, refusal := l.tenants.Directory.Settings(ctx, id)
		if refusal != nil {
			return refusal
		}
		if settings = found; settings == nil { // it was deleted since it was listed
			return nil
		}
	}
	u, err := l.quotas.UsageOf(ctx, settings)
	if err != nil {
		return err
	}
	if only || len(u.Limits) > 0 {
		u.Tenant = id
		page.Tenants = append(page.Tenants, usage(&u))
	}
	return nil
}

// refuseLimits writes the error of a request for limits.
func refuseLimits(w http.ResponseWriter, r *http.Request, err error) {
	var refusal *call.Refusal
	if !errors.As(err, &refusal) {
		refuse(w, r, http.StatusServiceUnavailable, codes.Unavailable, "USAGE_UNAVAILABLE",
			"the usage of limits cannot be read from Redis; try again later")
		return
	}
	switch refusal.Kind {
	case call.NotFound:
		refuse(w, r, http.StatusNotFound, codes.NotFound, refusal.Reason, refusal.Message)
	case call.PermissionDenied:
		refuse(w, r, http.StatusForbidden, codes.PermissionDenied, refusal.Reason, refusal.Message)
	default:
		refuse(w, r, http.StatusServiceUnavailable, codes.Unavailable, refusal.Reason, refusal.Message)
	}
}

func usage(u *ratelimit.Usage) TenantUsage {
	t := TenantUsage{Tenant: u.Tenant, Shadow: u.Shadow, Limits: []LimitUsage{}}
	for _, l := range u.Limits {
		t.Limits = append(t.Limits, LimitUsage{
			Limit: l.Limit.String(), Per: l.Name.Per, Capability: l.Name.Capability, Tool: l.Name.Tool, Max: l.Most,
			Burst: l.Burst, Used: l.Used, Held: l.Held, Apart: l.Apart,
		})
	}
	return t
}
