package admin_test

import (
	"context"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/admin"
	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// oneLimit has tenants with one limit each.
type oneLimit struct{}

func (oneLimit) UsageOf(_ context.Context, s *tenant.Settings) (ratelimit.Usage, error) {
	return ratelimit.Usage{Tenant: s.ID, Limits: []ratelimit.LimitUsage{{Most: 1}}}, nil
}

// TestLimitsOfSomeTenants: an operator sees the limits of its tenants alone, on pages of any size.
func TestLimitsOfSomeTenants(t *testing.T) {
	t.Parallel()
	all := []string{"acme", "globex", "hooli", "initech"}
	directory := tenant.NewDirectory(nil)
	settings := map[string]*tenant.Settings{}
	for _, id := range all {
		settings[id] = &tenant.Settings{ID: id}
	}
	directory.Replace(settings)
	for _, test := range []struct {
		of     []string
		sees   []string
		others int // status of a request for hooli
	}{
		{[]string{""}, all, 200},
		{[]string{"globex"}, []string{"globex"}, 403},
		{[]string{"acme", "globex", "initech"}, []string{"acme", "globex", "initech"}, 403},
	} {
		mux := guard.NewMux()
		admin.MountLimits(mux, oneLimit{}, &tenant.Roster{Directory: directory}, func() admin.Gateway { return admin.Gateway{} })
		by := gatewaytest.Operator{Roles: operator.View, Tenants: test.of}
		routes, err := guard.New(guard.Config{Authenticators: []guard.Authenticator{by}, Status: gateway.GRPCStatus}).Handler(mux)
		check.Must(t, err)
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
