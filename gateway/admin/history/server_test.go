package history_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/encoding/protojson"

	historyadmin "github.com/capgate/capgate/gateway/admin/history"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/history"
	"github.com/capgate/capgate/internal/history/storetest"
	"github.com/capgate/capgate/internal/operator"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// serve returns the API of a history with two calls of acme, for an operator of some tenants.
func serve(t *testing.T, store *storetest.Memory, series int, tenants ...string) *gatewaytest.Services {
	t.Helper()
	metrics, err := telemetry.NewMetrics(prometheus.NewPedanticRegistry(), telemetry.MetricsConfig{})
	check.Must(t, err)
	l := history.New(history.Config{Series: series, Store: store, Replica: "a", Version: "v1",
		Knows:  func(string, string) bool { return true },
		States: func() []history.State { return nil }})
	ok := &telemetry.Record{Call: &call.Call{Tenant: "acme", Tool: "get"}, Capability: metrics.Capability("weather"),
		Backend: "10.0.0.7:1", Ended: 30 * time.Millisecond, Outcome: telemetry.Succeeded}
	refused := *ok
	refused.Backend, refused.Code, refused.Reason = "", 8, "RATE_LIMITED"
	l.Record(ok)
	l.Record(&refused)
	l.Mark(history.Reloaded, "")
	_ = l.Publish(t.Context()) // the store may be away
	return gatewaytest.ServeGuarded(t, gatewaytest.Operator{Roles: operator.View, Tenants: tenants},
		historyadmin.New(historyadmin.Config{History: l,
			Tenant: func(_ context.Context, id string) (history.Series, *call.Refusal) {
				return history.TenantSeries(id, ""), nil
			},
			Drains: func(context.Context, string, time.Time) []history.Mark {
				return []history.Mark{{At: time.Now(), Kind: "backend.drained", Text: "10.0.0.7:1"}}
			}}))
}

// TestHistory: each series has its calls, and a fleet has the marks of the installation, which a tenant has not.
func TestHistory(t *testing.T) {
	t.Parallel()
	p := serve(t, &storetest.Memory{}, 10, "")
	for path, want := range map[string]struct {
		calls, answered float64
		steps, marks    int
	}{
		"/v1/history/fleets/weather":                            {2, 1, 60, 2},
		"/v1/history/fleets/weather?tool=get&span=24h":          {2, 1, 144, 2},
		"/v1/history/fleets/weather?backend=10.0.0.7:1&span=7d": {1, 1, 168, 2},
		"/v1/history/fleets/mail":                               {0, 0, 60, 2},
		"/v1/history/tenants/acme":                              {2, 1, 60, 0},
		"/v1/history/tenants/globex":                            {0, 0, 60, 0},
	} {
		status, text := p.Ask(t, "GET", path, "")
		got := new(capgatepb.HistoryResponse)
		if err := protojson.Unmarshal([]byte(text), got); err != nil || status != 200 {
			t.Errorf("%s: %d %s", path, status, text)
			continue
		}
		if s := got.GetSums(); s.GetCalls() != want.calls || s.GetAnswered() != want.answered ||
			len(got.GetSteps()) != want.steps || len(got.GetMarks()) != want.marks {
			t.Errorf("%s: %v, %d steps, %v", path, s, len(got.GetSteps()), got.GetMarks())
		}
		if want.calls == 2 && (len(got.GetReasons()) != 1 || got.GetReasons()[0].GetReason() != "RATE_LIMITED") {
			t.Errorf("%s: reasons %v", path, got.GetReasons())
		}
		if want.answered == 1 && (got.GetSums().GetP50Ms() <= 25 || got.GetSums().GetP99Ms() > 50) {
			t.Errorf("%s: a call of 30 ms has %v", path, got.GetSums())
		}
	}
	status, text := p.Ask(t, "GET", "/v1/history?capability=weather", "")
	rows := new(capgatepb.ListHistoryResponse)
	check.Must(t, protojson.Unmarshal([]byte(text), rows))
	if status != 200 || len(rows.GetRows()) != 1 || rows.GetRows()[0].GetName() != "10.0.0.7:1" ||
		rows.GetRows()[0].GetSums().GetP99Ms() == 0 {
		t.Errorf("backends: %d %s", status, text)
	}
}

// TestHistoryOfOneTenant: an operator of one tenant sees that tenant alone.
func TestHistoryOfOneTenant(t *testing.T) {
	t.Parallel()
	p := serve(t, &storetest.Memory{}, 10, "acme")
	for path, want := range map[string]int{"/v1/history/tenants/acme": 200, "/v1/history/tenants/globex": 403,
		"/v1/history/fleets/weather": 403, "/v1/history": 403} {
		if status, text := p.Ask(t, "GET", path, ""); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}

// TestHistorySaysWhatItLeavesOut: a response reports which of its calls are counted together. An operator of one tenant
// sees no calls of other tenants.
func TestHistorySaysWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	store := &storetest.Memory{}
	check.Must(t, store.Add(t.Context(), entries(
		history.Series{Kind: history.Tool, Group: "weather"}, history.Series{Kind: history.Backend, Group: "mail"},
		history.Series{Kind: history.Fleet}, history.Series{Kind: history.Tenant}), 100))
	all, one := serve(t, store, 10, ""), serve(t, store, 10, "acme")
	for _, test := range []struct {
		api   *gatewaytest.Services
		path  string
		other float64
	}{
		{all, "fleets/weather?tool=get", 7},
		{all, "fleets/mail?tool=get", 0},
		{all, "fleets/mail?backend=10.0.0.7:1", 7},
		{all, "fleets/weather", 7},
		{all, "tenants/acme", 7},
		{one, "tenants/acme", 0},
	} {
		_, text := test.api.Ask(t, "GET", "/v1/history/"+test.path, "")
		got := new(capgatepb.HistoryResponse)
		check.Must(t, protojson.Unmarshal([]byte(text), got))
		if got.GetOtherCalls() != test.other {
			t.Errorf("%s: %v other calls, want %v", test.path, got.GetOtherCalls(), test.other)
		}
	}
}

// entries returns seven calls of the others of each series, in the current minute.
func entries(of ...history.Series) (all []history.Entry) {
	minute := history.Spans()[0]
	p := history.Point{}
	p.Results[telemetry.Answered] = 7
	for _, s := range of {
		all = append(all, history.Entry{Step: history.Step{Span: minute, Number: minute.Number(time.Now())},
			Series: s.Others().Field(), Text: p.Text()})
	}
	return all
}

// TestNoHistory: a request that cannot be answered says why.
func TestNoHistory(t *testing.T) {
	t.Parallel()
	away := &storetest.Memory{Fails: func() error { return errors.New("away") }}
	for _, test := range []struct {
		api    *gatewaytest.Services
		path   string
		reason string
		status int
	}{
		{serve(t, away, 10, ""), "/v1/history/fleets/weather", "HISTORY_UNAVAILABLE", 503},
		{serve(t, away, 10, ""), "/v1/history", "HISTORY_UNAVAILABLE", 503},
		{serve(t, &storetest.Memory{}, 0, ""), "/v1/history/fleets/weather", "HISTORY_OFF", 400},
		{serve(t, &storetest.Memory{}, 10, ""), "/v1/history/fleets/weather?span=1y", "HISTORY_INVALID", 400},
		{serve(t, &storetest.Memory{}, 10, ""), "/v1/history/fleets/weather?tool=a&backend=b", "HISTORY_INVALID", 400},
		{serve(t, &storetest.Memory{}, 10, ""), "/v1/history?of=users", "HISTORY_INVALID", 400},
	} {
		status, text := test.api.Ask(t, "GET", test.path, "")
		var problem struct{ Reason string }
		check.Must(t, json.Unmarshal([]byte(text), &problem))
		if status != test.status || problem.Reason != test.reason {
			t.Errorf("%s: %d %s", test.path, status, text)
		}
	}
}
