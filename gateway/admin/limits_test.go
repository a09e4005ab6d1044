package admin_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
)

// used are tenants that have called.
type used map[string]bool

func (u used) Usage(after string, most int) (all []ratelimit.Usage) {
	for _, id := range slices.Sorted(maps.Keys(u)) {
		if id > after && len(all) < most {
			all = append(all, ratelimit.Usage{Tenant: id})
		}
	}
	return all
}

func (u used) UsageOf(id string) (ratelimit.Usage, bool) { return ratelimit.Usage{Tenant: id}, u[id] }

// ofTenants authenticates every request as an operator's of some tenants; none: of all.
type ofTenants []string

func (of ofTenants) Authenticate(*http.Request) (*operator.Identity, bool, *call.Refusal) {
	who := &operator.Identity{Name: "ann", Via: operator.ViaKey}
	for _, id := range of {
		who.Grant(id, operator.View)
	}
	if len(of) == 0 {
		who.Grant("", operator.View)
	}
	return who, true, nil
}

// TestLimitsOfSomeTenants: an operator sees the limits of its tenants alone, on pages of any size.
func TestLimitsOfSomeTenants(t *testing.T) {
	t.Parallel()
	all := []string{"acme", "globex", "hooli", "initech"}
	directory := tenant.NewDirectory(nil)
	settings, calls := map[string]*tenant.Settings{}, used{}
	for _, id := range all {
		settings[id], calls[id] = &tenant.Settings{ID: id}, true
	}
	directory.Replace(settings)
	for _, test := range []struct {
		of     ofTenants
		sees   []string
		others int // status of a request for hooli
	}{
		{nil, all, 200},
		{ofTenants{"globex"}, []string{"globex"}, 403},
		{ofTenants{"acme", "globex", "initech"}, []string{"acme", "globex", "initech"}, 403},
	} {
		mux := guard.NewMux()
		admin.MountLimits(mux, calls, &tenant.Roster{Directory: directory}, func() admin.Gateway { return admin.Gateway{} })
		routes, err := guard.New(guard.Config{Authenticators: []guard.Authenticator{test.of}, Status: gateway.GRPCStatus,
			HTTPStatus: gateway.HTTPStatus}).Handler(mux)
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(routes)
		check.Cleanup(t, server.Close)
		for _, size := range []string{"", "&page_size=1", "&page_size=2"} {
			var sees []string
			for token := ""; len(sees) <= len(all); {
				status, page := ask[admin.TenantsPage](t, "GET", server.URL+"/v1/limits?page_token="+token+size, "")
				for _, u := range page.Tenants {
					sees = append(sees, u.Tenant)
				}
				if token = page.Next; status != 200 || token == "" {
					break
				}
			}
			if !slices.Equal(sees, test.sees) {
				t.Errorf("%v, %q: %v", test.of, size, sees)
			}
		}
		if status, p := ask[problem.Problem](t, "GET", server.URL+"/v1/limits?tenant=hooli", ""); status != test.others {
			t.Errorf("%v: %d %+v", test.of, status, p)
		}
	}
}
