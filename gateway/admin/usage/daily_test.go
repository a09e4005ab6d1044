package usage_test

import (
	"context"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/admin/usage"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/ratelimit/daily"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// twoDays has the use of a tenant on two days.
type twoDays struct{}

func (twoDays) Days(_ context.Context, s *tenant.Settings, days int) (all []daily.Use, err error) {
	for _, day := range []int64{20001, 20000} {
		if days > 1 || day == 20001 {
			all = append(all, daily.Use{Limit: call.PerMonth, Tool: s.ID, Day: day, Used: day, Most: 25000})
		}
	}
	return all, nil
}

func (twoDays) Near(_ context.Context, s *tenant.Settings) ([]daily.Use, error) {
	return []daily.Use{{Limit: call.PerMonth, Tool: s.ID, Period: 2024*12 + 10, Used: 20001, Most: 25000}}, nil
}

// TestDaysOfATenant: the uses of a tenant have their days, the oldest first, and other operators do not see them.
func TestDaysOfATenant(t *testing.T) {
	t.Parallel()
	directory := tenant.NewDirectory(nil)
	directory.Replace(map[string]*tenant.Settings{"acme": {ID: "acme"}, "globex": {ID: "globex"}})
	p := gatewaytest.ServeGuarded(t, gatewaytest.Operator{Roles: operator.View, Tenants: []string{"acme"}},
		usage.New(oneLimit{}, twoDays{}, func() *tenant.Roster { return &tenant.Roster{Directory: directory} },
			func() *capgatepb.RespondingReplica { return nil }))
	const second = `{"date":"2024-10-05","limit":"per_month","tool":"acme","used":20001,"max":25000}`
	const near = `"near":[{"date":"2024-10","limit":"per_month","tool":"acme","used":20001,"max":25000}]`
	for path, want := range map[string]struct {
		status int
		text   string
	}{
		"acme/days": {200, `{"days":[{"date":"2024-10-04","limit":"per_month","tool":"acme","used":20000,` +
			`"max":25000},` + second + `],` + near + `}`},
		"acme/days?days=1":  {200, `{"days":[` + second + `],` + near + `}`},
		"acme/days?days=31": {400, "days"},
		"acme/days?days=-1": {400, "days"},
		"globex/days":       {403, ""},
	} {
		status, text := p.Ask(t, "GET", "/v1/limits/"+path, "")
		if got := strings.ReplaceAll(text, " ", ""); status != want.status || !strings.Contains(got, want.text) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}
