package usage_test

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/capgate/capgate/gateway/admin/usage"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
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
		p := gatewaytest.ServeGuarded(t, gatewaytest.Operator{Roles: operator.View, Tenants: test.of},
			usage.New(oneLimit{}, nil, func() *tenant.Roster { return &tenant.Roster{Directory: directory} },
				func() *capgatepb.RespondingReplica { return nil }))
		for _, size := range []string{"", "&page_size=1", "&page_size=2"} {
			var sees []string
			for token := ""; len(sees) <= len(all); {
				status, text := p.Ask(t, "GET", "/v1/limits?page_token="+token+size, "")
				page := new(capgatepb.ListUsageResponse)
				check.Must(t, protojson.Unmarshal([]byte(text), page))
				for _, u := range page.GetTenants() {
					sees = append(sees, u.GetTenant())
				}
				if token = page.GetNextPageToken(); status != 200 || token == "" {
					break
				}
			}
			if !slices.Equal(sees, test.sees) {
				t.Errorf("%v, %q: %v", test.of, size, sees)
			}
		}
		if status, text := p.Ask(t, "GET", "/v1/limits?tenant=hooli", ""); status != test.others {
			t.Errorf("%v: %d %s", test.of, status, text)
		}
	}
}
