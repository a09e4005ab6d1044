package admin

import (
	"errors"
	"net/http"

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
	Usage(after string, most int) []ratelimit.Usage
	UsageOf(tenant string) (ratelimit.Usage, bool)
}

// TenantsPage is a page of tenants with limits that called this replica recently.
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
	// Used is the usage. Of quotas it is that of all replicas, as last known, and per value the maximum. Of
	// other limits it is that of this replica, and per value the sum.
	Used  float64 `json:"used"`
	Held  int64   `json:"held"`            // permits that this replica holds
	Apart int     `json:"apart,omitempty"` // values that are counted separately
}

// MountLimits adds GET /v1/limits?page_size=&page_token= to a mux, with &tenant= for one tenant. The argument
// tenants has the existing tenants; nil: there is only tenant.Default.
func MountLimits(mux *guard.Mux, q Quotas, tenants *tenant.Roster, who func() Gateway) {
	mux.HandleFunc("GET /v1/limits", func(w http.ResponseWriter, r *http.Request) {
		page := TenantsPage{Gateway: who(), Tenants: []TenantUsage{}}
		named := r.URL.Query().Get("tenant")
		ids, err := operator.Tenants(r.Context(), named)
		var foreign *call.Refusal
		if errors.As(err, &foreign) {
			refuse(w, r, http.StatusForbidden, codes.PermissionDenied, foreign.Reason, foreign.Message)
			return
		}
		if len(ids) == 1 && ids[0] == named {
			u, ok := q.UsageOf(named)
			var unknown *call.Refusal
			if !ok && errors.As(tenants.Check(r.Context(), named), &unknown) && unknown.Kind == call.NotFound {
				refuse(w, r, http.StatusNotFound, codes.NotFound, unknown.Reason, unknown.Message)
				return
			}
			if !ok {
				refuse(w, r, http.StatusNotFound, codes.NotFound, "USAGE_UNKNOWN",
					"no tenant with that id has limits and called this replica recently")
				return
			}
			page.Tenants = append(page.Tenants, usage(&u))
			write(w, http.StatusOK, page)
			return
		}
		size, ok := sizeOf(w, r, tenantsPage, tenantsPage)
		if !ok {
			return
		}
		after, ok := afterOf(w, r)
		if !ok {
			return
		}
		all := usageOfSome(q, ids, after, size+1)
		for i := range all[:min(len(all), size)] {
			page.Tenants = append(page.Tenants, usage(&all[i]))
		}
		if len(all) > size {
			page.Next = tokenOf(all[size-1].Tenant)
		}
		write(w, http.StatusOK, page)
	})
}

// usageOfSome returns the usage of tenants after one; nil: of all.
func usageOfSome(q Quotas, ids []string, after string, most int) (all []ratelimit.Usage) {
	if ids == nil {
		return q.Usage(after, most)
	}
	for _, id := range ids {
		if u, ok := q.UsageOf(id); ok && id > after && len(all) < most {
			all = append(all, u)
		}
	}
	return all
}

func usage(u *ratelimit.Usage) TenantUsage {
	t := TenantUsage{Tenant: u.Tenant, Shadow: u.Shadow, Limits: []LimitUsage{}}
	for _, l := range u.Limits {
		t.Limits = append(t.Limits, LimitUsage{
			Limit: l.Limit.String(), Per: l.Name.Per, Capability: l.Name.Capability, Tool: l.Name.Tool, Max: l.Most,
			Used: l.Used, Held: l.Held, Apart: l.Apart,
		})
	}
	return t
}
