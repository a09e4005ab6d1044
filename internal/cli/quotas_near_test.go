package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestNearALimit: when 80% of a quota is used, three replicas log and record it once. The summary, the tenant's days
// and capgate show it at each replica, and each destination of such events receives one. A daily quota resets at
// midnight, so a round that crosses midnight is repeated.
func TestNearALimit(t *testing.T) {
	t.Parallel()
	for range 2 {
		if nearALimit(t) || t.Failed() {
			return
		}
	}
	t.Error("the day has ended twice")
}

// nearALimit uses most of a day's calls, and checks every place that shows it. It returns false if the day has ended.
func nearALimit(t *testing.T) (sameDay bool) {
	t.Helper()
	today := time.Now().UTC().Format(time.DateOnly)
	over := func() bool { return time.Now().UTC().Format(time.DateOnly) != today }
	until := func(what string, look func() (bool, string)) {
		check.Until(t, what, func() (bool, string) {
			done, saw := look()
			return done || over(), saw
		})
	}
	posts := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		posts <- r.URL.Path + " " + string(body)
	}))
	t.Cleanup(receiver.Close)
	secret := filepath.Join(t.TempDir(), "secret")
	check.Must(t, os.WriteFile(secret, []byte(strings.Repeat("a secret of the tests ", 3)), 0o600))
	g := startLimited(t, "{per_day: 10, per_month: 1000}", fmt.Sprintf(`approvals:
  notices:
  - {name: programs, url: '%[1]s/programs', secret_file: '%[2]s', events: [limit.near]}
  - {name: people, url: '%[1]s/people', format: slack, events: [asked, limit.near], tenants: [acme]}
  - {name: others, url: '%[1]s/others', format: slack, events: [limit.near], tenants: [globex]}
`, receiver.URL, secret))
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
	until("the notice", func() (bool, string) { return near() > 0, "" })
	for i, admin := range g.admins {
		for path, want := range map[string][]string{
			"/v1/summary": {`"kind":"limits"`, "acme has used", "of its 10 calls a day",
				`"link":"#/tenants/acme"`},
			"/v1/limits/acme/days": {`"date":"` + today + `"`, `"limit":"per_month"`, `"near":[{`},
			"/v1/audit":            {"limit.near"},
		} {
			until(fmt.Sprintf("%s at replica %d", path, i), func() (bool, string) {
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
		if over() {
			return false
		}
		if exit != 0 || !strings.Contains(out, "near its limit: per_day,") || !strings.Contains(out, today) {
			t.Errorf("capgate tenants usage: %d\n%s", exit, out)
		}
	}
	got := map[string]string{}
	for range 2 {
		path, body, _ := strings.Cut(check.Received(t, posts, "an event"), " ")
		got[path] = body
	}
	if !strings.Contains(got["/programs"], `{"type":"limit.near",`) ||
		!strings.Contains(got["/programs"], `"tenant":"acme","text":"acme has used `) ||
		!strings.Contains(got["/people"], "A tenant is near a limit") {
		t.Errorf("%q", got)
	}
	if n := near(); n != 1 || len(posts) > 0 {
		t.Errorf("%d notices, and %d more events", n, len(posts))
	}
	return true
}
