package history_test

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/history"
	"github.com/capgate/capgate/internal/history/storetest"
	"github.com/capgate/capgate/internal/telemetry"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/metrictest"
)

// rig is a Log with a clock and a store of its own.
type rig struct {
	*history.Log
	store   *storetest.Memory
	now     time.Time
	metrics *telemetry.Metrics
}

func newRig(t *testing.T, series int) *rig {
	t.Helper()
	metrics, err := telemetry.NewMetrics(prometheus.NewPedanticRegistry(), telemetry.MetricsConfig{})
	check.Must(t, err)
	r := &rig{store: &storetest.Memory{}, now: time.Date(2026, 11, 29, 7, 0, 30, 0, time.UTC), metrics: metrics}
	r.Log = r.replica(series)
	return r
}

// replica returns a Log of another replica with the same store.
func (r *rig) replica(series int) *history.Log {
	return history.New(history.Config{Series: series, Store: r.store, Now: func() time.Time { return r.now },
		Knows: func(_, tool string) bool { return tool != "made up" },
		States: func() []history.State {
			return []history.State{{"weather", "10.0.0.7:1", true}, {"weather", "10.0.0.8:1", false}}
		}})
}

func (r *rig) record(capability, tool string) *telemetry.Record {
	return &telemetry.Record{Call: &call.Call{Tenant: "acme", Tool: tool, Capability: capability},
		Capability: r.metrics.Capability(capability), TenantUID: "u1", Backend: "10.0.0.7:1",
		Ended: 40 * time.Millisecond, Outcome: telemetry.Succeeded}
}

func (r *rig) read(t *testing.T, of history.Series, span string) (sum history.Point, points []history.Dated) {
	t.Helper()
	s, _ := history.SpanOf(span)
	points, err := r.Read(t.Context(), of, s)
	check.Must(t, err)
	for i := range points {
		sum.Add(&points[i].Point)
	}
	return sum, points
}

// TestAllReplicasCount: a call is in the series of its fleet, tool, backend and tenant, over each span, at its time.
func TestAllReplicasCount(t *testing.T) {
	t.Parallel()
	r := newRig(t, 10)
	other := r.replica(10)
	r.Record(r.record("weather", "get"))
	refused := r.record("weather", "get")
	refused.Backend, refused.Code, refused.Reason = "", 8, "RATE_LIMITED"
	other.Record(refused)
	other.Record(r.record("weather", "made up"))
	other.Look()
	check.Must(t, other.Publish(t.Context()))
	check.Must(t, r.Publish(t.Context()))
	r.now = r.now.Add(3 * time.Minute)
	r.Record(r.record("weather", "get")) // not published yet
	for of, want := range map[history.Series]int64{
		{Kind: history.Fleet, Group: "weather"}:                       4,
		{Kind: history.Tool, Group: "weather", Name: "get"}:           3,
		{Kind: history.Tool, Group: "weather", Name: history.Other}:   1,
		{Kind: history.Backend, Group: "weather", Name: "10.0.0.7:1"}: 3,
		{Kind: history.Backend, Group: "weather", Name: "10.0.0.8:1"}: 0,
		history.TenantSeries("acme", "u1"):                            4,
		history.TenantSeries("acme", "u2"):                            0,
		{Kind: history.Fleet, Group: "mail"}:                          0,
	} {
		for _, span := range history.Spans() {
			if sum, points := r.read(t, of, span.Name); sum.Calls() != want || len(points) != span.Steps {
				t.Errorf("%+v over %s: %d calls, not %d", of, span.Name, sum.Calls(), want)
			}
		}
	}
	sum, points := r.read(t, history.Series{Kind: history.Fleet, Group: "weather"}, "1h")
	if points[56].Calls() != 3 || points[59].Calls() != 1 || !points[56].Began.Equal(r.now.Add(-210*time.Second)) {
		t.Errorf("minutes: %d at %v, %d", points[56].Calls(), points[56].Began, points[59].Calls())
	}
	if sum.Reasons["RATE_LIMITED"] != 1 || sum.Results[telemetry.Refused] != 1 || sum.Seen != 2 || sum.Usable != 1 {
		t.Errorf("%+v", sum)
	}
	if p50 := sum.Quantile(0.5); p50 < 25*time.Millisecond || p50 > 50*time.Millisecond {
		t.Errorf("p50 of calls of 40 ms: %v", p50)
	}
	rows, err := r.LastHour(t.Context(), history.Tool, "weather")
	if check.Must(t, err); len(rows) != 2 {
		t.Errorf("tools: %v", rows)
	}
}

// TestSeriesAreBounded: no caller, tool or tenant can add series beyond the bound, and no capability takes the part of
// another. The calls of the others are counted together.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t, 4)
	for i := range 100 {
		rec := r.record("weather", "tool"+strconv.Itoa(i))
		rec.Call.Tenant, rec.TenantUID, rec.Backend = fmt.Sprint("t", i), "", fmt.Sprint("10.0.0.", i)
		r.Record(rec)
	}
	r.Record(r.record("mail", "send"))
	check.Must(t, r.Publish(t.Context()))
	all, err := r.store.All(t.Context(), history.Step{Span: history.Spans()[0],
		Number: history.Spans()[0].Number(r.now)})
	check.Must(t, err)
	if len(all) != 2+2*(4+1+1)+4+1 {
		t.Errorf("%d series", len(all))
	}
	if sum, _ := r.read(t, history.Series{Kind: history.Tenant, Name: history.Other}, "1h"); sum.Calls() != 97 {
		t.Errorf("%d calls of other tenants", sum.Calls())
	}
	if sum, _ := r.read(t, history.Series{Kind: history.Tool, Group: "mail", Name: "send"}, "1h"); sum.Calls() != 1 {
		t.Error("a capability with many tools displaced that of another")
	}
}

// TestAStoreThatReturns: minutes without a store are added later, at their own time.
func TestAStoreThatReturns(t *testing.T) {
	t.Parallel()
	r := newRig(t, 10)
	away := errors.New("away")
	r.store.Fails = func() error { return away }
	for range 3 {
		r.Record(r.record("weather", "get"))
		if err := r.Publish(t.Context()); !errors.Is(err, away) {
			t.Fatal(err)
		}
		r.now = r.now.Add(time.Minute)
	}
	r.store.Fails = nil
	check.Must(t, r.Publish(t.Context()))
	_, points := r.read(t, history.Series{Kind: history.Fleet, Group: "weather"}, "1h")
	for i, want := range []int64{1, 1, 1, 0} {
		if got := points[56+i].Calls(); got != want {
			t.Errorf("minute %d: %d calls, not %d", i, got, want)
		}
	}
}

// TestAPublicationGoesOn: of points that the store accepted in part, the rest alone is added later.
func TestAPublicationGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, 200)
	const tools = 90
	for i := range tools {
		r.Record(r.record("weather", "get"+strconv.Itoa(i)))
	}
	batches := 0
	r.store.Fails = func() error {
		if batches++; batches == 2 {
			return errors.New("away")
		}
		return nil
	}
	if r.Publish(t.Context()) == nil {
		t.Fatal("no batch failed")
	}
	r.store.Fails = nil
	check.Must(t, r.Publish(t.Context()))
	if sum, _ := r.read(t, history.Series{Kind: history.Fleet, Group: "weather"}, "24h"); sum.Calls() != tools {
		t.Errorf("%d calls of the fleet, want %d", sum.Calls(), tools)
	}
	for i := range tools {
		of := history.Series{Kind: history.Tool, Group: "weather", Name: "get" + strconv.Itoa(i)}
		if sum, _ := r.read(t, of, "24h"); sum.Calls() != 1 {
			t.Errorf("%d calls of tool %d, want 1", sum.Calls(), i)
		}
	}
}

// TestKnownSeriesAllocateNothing: the counting of a call makes no garbage.
func TestKnownSeriesAllocateNothing(t *testing.T) {
	r := newRig(t, 10)
	rec := r.record("weather", "get")
	rec.Code, rec.Reason = 8, "RATE_LIMITED"
	if n := testing.AllocsPerRun(100, func() { r.Record(rec) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestTextOfAPoint: a text is read as what it was, and other texts are refused.
func TestTextOfAPoint(t *testing.T) {
	t.Parallel()
	p := history.Point{Seen: 3, Reasons: map[string]int64{"A_B": 2, "C": 1}}
	p.Results[1], p.Took[11] = 5, 1<<50
	got, ok := history.ParsePoint(p.Text())
	if !ok || !reflect.DeepEqual(got, p) {
		t.Errorf("%q is %+v", p.Text(), got)
	}
	for _, text := range []string{"", "x", "1,-2", "1,,2", strings.Repeat("1,", 22) + "1",
		"1 A", "1 A=x", "1 A=-1"} {
		if _, ok := history.ParsePoint(text); ok {
			t.Errorf("%q is a point", text)
		}
	}
}

// TestASeriesKeepsItsPlace: with more tools than series, a tool keeps its series while it is called, whichever tools
// are called first in a later minute. A new tool takes the series of one that was not called for an hour. The calls of
// tools without a series are counted together.
func TestASeriesKeepsItsPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	tool := func(name string) history.Series {
		return history.Series{Kind: history.Tool, Group: "weather", Name: name}
	}
	minute := func(tools ...string) {
		t.Helper()
		for _, name := range tools {
			r.Record(r.record("weather", name))
		}
		check.Must(t, r.Publish(t.Context()))
		r.now = r.now.Add(time.Minute)
	}
	calls := func(of history.Series) int64 {
		sum, _ := r.read(t, of, "24h")
		return sum.Calls()
	}
	minute("a", "b", "c")
	minute("c", "b", "a")
	minute("c", "a")
	minute("c", "b")
	if a, b, c := calls(tool("a")), calls(tool("b")), calls(tool("c")); a != 3 || b != 3 || c != 0 {
		t.Errorf("calls of a, b, c: %d, %d, %d, want 3, 3, 0", a, b, c)
	}
	if n := metrictest.Read(t, r)[`capgate_history_others_total{kind="tool"}`]; n != 4 ||
		calls(tool("a").Others()) != 4 {
		t.Errorf("%v calls of tools without a place, want 4", n)
	}
	for range 60 {
		minute("b")
	}
	minute("c", "b")
	if c, b := calls(tool("c")), calls(tool("b")); c != 1 || b != 64 {
		t.Errorf("after an hour without a: %d calls of c and %d of b, want 1 and 64", c, b)
	}
}

// TestANewBackendTakesThePlaceOfAnEndedOne: where all places are taken, a new backend gets at once that of the backend
// that ended first, and none of one that runs.
func TestANewBackendTakesThePlaceOfAnEndedOne(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	minute := func(backends ...string) {
		t.Helper()
		for _, name := range backends {
			rec := r.record("weather", "get")
			rec.Backend = name
			r.Record(rec)
		}
		check.Must(t, r.Publish(t.Context()))
		r.now = r.now.Add(time.Minute)
	}
	minute("a", "b")
	minute("b")
	minute()
	minute("c", "d", "e") // a ended first, then b
	minute("c", "d")
	minute("f", "c", "d")
	for name, want := range map[string]int64{"a": 1, "b": 2, "c": 3, "d": 3, "e": 0, "f": 0, history.Other: 2} {
		sum, _ := r.read(t, history.Series{Kind: history.Backend, Group: "weather", Name: name}, "24h")
		if sum.Calls() != want {
			t.Errorf("%d calls of %s, want %d", sum.Calls(), name, want)
		}
	}
}

// TestAReplicaTakesOverTheSeries: a replica that starts has series for the same tools as the earlier replicas.
func TestAReplicaTakesOverTheSeries(t *testing.T) {
	t.Parallel()
	r := newRig(t, 2)
	for _, tool := range []string{"a", "b", "b"} {
		r.Record(r.record("weather", tool))
	}
	check.Must(t, r.Publish(t.Context()))
	later := r.replica(2)
	check.Must(t, later.Adopt(t.Context()))
	for _, tool := range []string{"c", "b", "a"} {
		later.Record(r.record("weather", tool))
	}
	check.Must(t, later.Publish(t.Context()))
	for tool, want := range map[string]int64{"a": 2, "b": 3, "c": 0} {
		of := history.Series{Kind: history.Tool, Group: "weather", Name: tool}
		if sum, _ := r.read(t, of, "1h"); sum.Calls() != want {
			t.Errorf("%d calls of %s, want %d", sum.Calls(), tool, want)
		}
	}
}

// TestQuickCalls: the latency of calls below 5 ms is that of their bucket, and the texts of versions without these
// buckets are read.
func TestQuickCalls(t *testing.T) {
	t.Parallel()
	for took, most := range map[time.Duration]time.Duration{
		200 * time.Microsecond:  500 * time.Microsecond,
		700 * time.Microsecond:  time.Millisecond,
		1500 * time.Microsecond: 2 * time.Millisecond,
		4 * time.Millisecond:    5 * time.Millisecond,
		40 * time.Millisecond:   50 * time.Millisecond,
	} {
		r := newRig(t, 10)
		for range 9 {
			rec := r.record("weather", "get")
			rec.Ended = took
			r.Record(rec)
		}
		check.Must(t, r.Publish(t.Context()))
		sum, _ := r.read(t, history.Series{Kind: history.Fleet, Group: "weather"}, "1h")
		if p := sum.Quantile(1); p != most || sum.Quantile(0.5) < most*2/5 {
			t.Errorf("calls of %v: 100%% took at most %v, want %v; median %v", took, p, most, sum.Quantile(0.5))
		}
	}
	before, ok := history.ParsePoint("9,0,0,0,0,6,6,3,2,4")
	if !ok || before.Took != [history.NumTook]int64{3: 3, 4: 2, 5: 4} || before.Usable != 6 {
		t.Errorf("the text of a version without quick buckets is %+v", before)
	}
}
