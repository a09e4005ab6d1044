package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestLimitsOfTheFile: limits apply, follow the file, and are counted and shown. The tenant is the only one.
func TestLimitsOfTheFile(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("b").Serve(t, call.Doc)
	config := func(limits string) string { return configOf("limits: "+limits, backend.Addr) }
	file := writeConfig(t, config("{per_month: 3, each: [{per: user, calls_per_second: 1000}]}"))
	_, public, admin := serve(t, nil, "--config", file)
	invoke := func() int {
		resp, err := clienttest.HTTP.Post("http://"+public+"/v1/capabilities/caps/invoke", "application/json",
			strings.NewReader(`{"tool_name":"`+gatewaytest.Echo+`"}`))
		check.Must(t, err)
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	for i, want := range []int{200, 200, 200, 429, 429} {
		if got := invoke(); got != want {
			t.Errorf("call %d: %d", i, got)
		}
	}
	_, metrics := page(t, "http://"+admin+"/metrics")
	for _, want := range []string{
		`capgate_tenant_limited_total{limit="per_month",mode="enforced",tenant="default"} 2`,
		`capgate_tenant_limited_total{limit="calls_per_second",mode="enforced",tenant="default"} 0`,
		`capgate_limit_leases_total{result="granted"}`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in\n%s", want, metrics)
		}
	}
	all, text := rows(t, admin, "--tenants")
	if len(all) < 4 || strings.Join(all[3], " ") != "default per_month - 3 3 0" {
		t.Errorf("%s; all %+v", text, all)
	}
	if status, body := page(t, "http://"+admin+"/v1/limits?tenant=nobody"); status != http.StatusNotFound {
		t.Errorf("got %d %s", status, body)
	}
	check.Must(t, os.WriteFile(file, []byte(config("{per_month: 5}")), 0o600))
	becomes(t, "the status of the fourth", func() string { return fmt.Sprint(invoke()) }, "429", "200")
	for i, want := range []int{200, 429} {
		if got := invoke(); got != want {
			t.Errorf("call %d of the new limit: %d", i+5, got)
		}
	}
}

// TestUsageOfLimits: the admin API shows limits as configured and calls as counted, before the first call,
// after some concurrent ones, and at a replica that received none.
func TestUsageOfLimits(t *testing.T) {
	t.Parallel()
	g := startLimited(t, "{calls_per_second: 80, per_day: 100, each: [{per: user, concurrent: 2}]}")
	usage := func(gateway int) string {
		var rows string
		var list struct {
			Tenants []struct {
				Tenant string
				Limits []struct {
					Limit, Per string
					Max        int
					Used       float64
				}
			}
		}
		status, body := page(t, "http://"+g.admins[gateway]+"/v1/limits")
		if err := json.Unmarshal([]byte(body), &list); err != nil || status != http.StatusOK {
			t.Fatal(status, err, body)
		}
		for _, tenant := range list.Tenants {
			for _, l := range tenant.Limits {
				used := fmt.Sprint(l.Used)
				// some of them from a second ago, on a slow machine
				if l.Limit == "calls_per_second" && l.Used > 0 && l.Used <= 10 {
					used = "≤10"
				}
				rows += fmt.Sprintf("%s: %s%s %s of %d; ", tenant.Tenant, l.Limit, l.Per, used, l.Max)
			}
		}
		return rows
	}
	const idle = "acme: calls_per_second 0 of 80; acme: per_day 0 of 100; acme: concurrentuser 0 of 2; "
	for i := range g.admins {
		if got := usage(i); got != idle {
			t.Errorf("replica %d, before the first call: %s", i, got)
		}
	}
	for range 10 {
		check.Must(t, g.invoke(t.Context(), 0, gatewaytest.Echo))
	}
	if got := usage(0); !strings.Contains(got, "calls_per_second ≤10 of 80") &&
		!strings.Contains(got, "calls_per_second 0 of 80") {
		t.Errorf("after ten calls: %s", got)
	}
	// Unused leased calls return to the store, which then has the ten calls.
	want := strings.Replace(idle, "per_day 0", "per_day 10", 1)
	check.Until(t, "the usage at a replica without calls to be "+want, func() (bool, string) {
		got := usage(1)
		return got == want, got
	})
}

// TestSeriesOfTenants: limits in the file have series before the first call, and those of removed tenants
// disappear.
func TestSeriesOfTenants(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	config := func(tenants string) string {
		return configOf("overload: {max_delay: 10s}\nidentity: {store: redis}\nmetrics: {tenants: 2}\nlimits: "+
			"{per_month: 5, each: [{per: user, concurrent: 1}]}\ntenants: ["+tenants+"]", backend)
	}
	file := writeConfig(t, config("{id: acme, capabilities: ['*']}, {id: globex, capabilities: ['*'], limits: "+
		"{messages: 7}}"))
	_, public, admin := serve(t, nil, "--config", file)
	series := func(limit, of string) string {
		return `capgate_tenant_limited_total{limit="` + limit + `",mode="enforced",tenant="` + of + `"} 0`
	}
	_, metrics := page(t, "http://"+admin+"/metrics")
	for _, want := range []string{series("per_month", "acme"), series("concurrent", "acme"),
		series("messages", "globex")} {
		if !strings.Contains(metrics, want) {
			t.Errorf("no %s in\n%s", want, metrics)
		}
	}
	check.Must(t, os.WriteFile(file, []byte(config("{id: acme, capabilities: ['*']}")), 0o600))
	waitGone(t, admin, `tenant="globex"`)

	run := func(args ...string) string {
		t.Helper()
		exit, stdout, stderr := runProgram(t, nil, append(args, "--admin", admin)...)
		if exit != 0 {
			t.Fatal(args, stderr)
		}
		return strings.TrimSpace(stdout)
	}
	for _, id := range []string{"hooli", "initech"} { // one after the other, as there is one permit
		run("tenants", "create", id, "--capabilities", "*")
		key := run("keys", "create", id)
		if exit, _, stderr := runProgram(t, []string{"CAPGATE_KEY=" + key}, "invoke", "--addr", public, "caps",
			gatewaytest.Echo); exit != 0 {
			t.Fatal(stderr)
		}
		waitPage(t, "http://"+admin+"/metrics", series("per_month", id))
		run("tenants", "rm", id, "--force")
		waitGone(t, admin, `tenant="`+id+`"`)
	}
}

// waitGone waits until the metrics no longer contain text.
func waitGone(t *testing.T, admin, text string) {
	t.Helper()
	check.Until(t, text+" to be gone", func() (bool, string) {
		_, metrics := page(t, "http://"+admin+"/metrics")
		return !strings.Contains(metrics, text), fmt.Sprintf("%s is still there", text)
	})
}
