package calls_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/capgate/capgate/gateway/admin/calls"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// archive is a recent.Archive with three calls of acme and one of globex.
type archive struct {
	now time.Time
	err error
}

func (a archive) call(tenant, id string, ago time.Duration) recent.Call {
	return recent.Call{ID: id, Ended: a.now.Add(-ago), Summary: telemetry.Summary{Tenant: tenant, Code: "OK",
		RequestID: "r-" + id, User: "ann"}}
}

func (a archive) Page(_ context.Context, tenant string, _, _ time.Time, before string, _ int) ([]recent.Call, string,
	error) {
	switch {
	case before != "":
		return nil, "", a.err
	case tenant == "acme":
		return []recent.Call{a.call("acme", "1", time.Minute), a.call("acme", "2", time.Hour),
			a.call("acme", "3", 48*time.Hour)}, "", a.err
	}
	return []recent.Call{a.call("globex", "4", 2*time.Hour)}, "", a.err
}

func (a archive) Tenants(context.Context, time.Time, int) ([]string, error) {
	return []string{"acme", "globex"}, a.err
}

func (archive) Keep(context.Context, []recent.Call, recent.Bounds) error { return nil }

// TestCallsOfPastDays: they are found by time, tenant and request, page by page. An operator of one tenant finds those
// of that tenant alone.
func TestCallsOfPastDays(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(ago time.Duration) string { return now.Add(-ago).UTC().Format(time.RFC3339) }
	serve := func(a archive, past int, tenants ...string) *gatewaytest.Services {
		log := recent.New(recent.Config{Keep: 10, Archive: a,
			Bounds: recent.Bounds{Calls: past, Days: 7}})
		return gatewaytest.ServeGuarded(t, gatewaytest.Operator{Roles: operator.View, Tenants: tenants},
			calls.New(calls.Config{Recent: log}).Operators())
	}
	all, one := serve(archive{now: now}, 9, ""), serve(archive{now: now}, 9, "acme")
	for _, test := range []struct {
		api         *gatewaytest.Services
		query, want string
	}{
		{all, "start_time=" + at(24*time.Hour), "1 2 4"},
		{all, "start_time=" + at(72*time.Hour), "1 2 4 3"},
		{all, "end_time=" + at(90*time.Minute), "4 3"},
		{all, "start_time=" + at(72*time.Hour) + "&end_time=" + at(3*time.Hour), "3"},
		{all, "start_time=" + at(24*time.Hour) + "&tenant=acme", "1 2"},
		{all, "query=r-3", "3"}, // none of the last calls
		{all, "query=r-5", ""},
		{all, "start_time=" + at(72*time.Hour) + "&user=bob", ""},
		{all, "page_size=3&start_time=" + at(72*time.Hour), "1 2 4, 3"},
		{one, "start_time=" + at(72*time.Hour), "1 2 3"},
		{one, "query=r-4", ""},
	} {
		var pages []string
		for token := ""; len(pages) < 9; {
			status, text := test.api.Ask(t, "GET", "/v1/calls?"+test.query+"&page_token="+token, "")
			page := new(capgatepb.ListCallsResponse)
			if err := protojson.Unmarshal([]byte(text), page); err != nil || status != 200 {
				t.Fatalf("%s: %d %s", test.query, status, text)
			}
			var ids []string
			for _, c := range page.GetCalls() {
				ids = append(ids, c.GetId())
			}
			pages = append(pages, strings.Join(ids, " "))
			if token = page.GetNextPageToken(); token == "" {
				break
			}
		}
		if got := strings.Join(pages, ", "); got != test.want {
			t.Errorf("%s: %q, not %q", test.query, got, test.want)
		}
	}
	for reason, api := range map[string]*gatewaytest.Services{
		"CALLS_UNAVAILABLE": serve(archive{now: now, err: errors.New("away")}, 9, ""),
		"CALLS_OFF":         serve(archive{now: now}, 0, ""),
	} {
		if _, text := api.Ask(t, "GET", "/v1/calls?start_time="+at(time.Hour), ""); !strings.Contains(text, reason) {
			t.Errorf("%s: %s", reason, text)
		}
	}
	_, text := all.Ask(t, "GET", "/v1/calls?start_time="+at(time.Hour)+"&end_time="+at(2*time.Hour), "")
	if !strings.Contains(text, "CALLS_INVALID") {
		t.Error(text)
	}
}
