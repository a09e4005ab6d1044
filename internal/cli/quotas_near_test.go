package cli

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestNearALimit: when 80% of a quota is used, three replicas log and record it once, and the summary, the days of the
// tenant and capgate show it at both.
func TestNearALimit(t *testing.T) {
	t.Parallel()
	g := startLimited(t, "{per_day: 10, per_month: 1000}")
	for i := range 8 {
		check.Must(t, g.invoke(t.Context(), i%2, gatewaytest.Echo))
	}
	near := func() int {
		n := 0
		for _, p := range g.programs {
			n += strings.Count(p.stderr.String(), "tenant near a limit")
		}
		return n
	}
	check.Until(t, "the notice", func() (bool, string) { return near() > 0, "" })
	today := time.Now().UTC().Format(time.DateOnly)
	for i, admin := range g.admins {
		for path, want := range map[string][]string{
			"/v1/summary": {`"kind":"limits"`, "acme has used", "of its 10 calls a day",
				`"link":"#/tenants/acme"`},
			"/v1/limits/acme/days": {`"date":"` + today + `"`, `"limit":"per_month"`, `"near":[{`},
			"/v1/audit":            {"limit.near"},
		} {
			check.Until(t, fmt.Sprintf("%s at replica %d", path, i), func() (bool, string) {
				status, body := page(t, "http://"+admin+path)
				body = strings.ReplaceAll(body, `": `, `":`)
				for _, part := range want {
					if status != http.StatusOK || !strings.Contains(body, part) {
						return false, body
					}
				}
				return true, body
			})
		}
		exit, out, _ := runProgram(t, nil, "tenants", "usage", "acme", "--admin", admin)
		if exit != 0 || !strings.Contains(out, "near its limit: per_day,") || !strings.Contains(out, today) {
			t.Errorf("capgate tenants usage: %d\n%s", exit, out)
		}
	}
	if n := near(); n != 1 {
		t.Errorf("%d notices", n)
	}
}
