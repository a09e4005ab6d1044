package storetest

import (
	"reflect"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/history"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/contract"
)

// Suite returns the tests that every Store passes.
func Suite() contract.Suite[history.Store] {
	return contract.Suite[history.Store]{
		"points of replicas add up":     testPoints,
		"a step has a bound":            testBound,
		"reasons have a bound":          testReasons,
		"marks are the newest first":    testMarks,
		"a step without points is \"\"": testAbsent,
	}
}

func steps(n int) []history.Step {
	span := history.Spans()[0]
	now := span.Number(time.Now())
	all := make([]history.Step, n)
	for i := range all {
		all[i] = history.Step{Span: span, Number: now - int64(n-1-i)}
	}
	return all
}

func point(calls, took int64, reasons map[string]int64) *history.Point {
	p := &history.Point{Reasons: reasons, Seen: 2, Usable: 1}
	p.Results[0], p.Took[3] = calls, took
	return p
}

func testPoints(t *testing.T, open func() history.Store) {
	a, b, at := open(), open(), steps(3)
	weather := history.Series{Kind: history.Tool, Group: "weather", Name: "get forecast"}
	entry := func(s history.Step, p *history.Point) history.Entry {
		return history.Entry{Step: s, Series: weather.Field(), Other: "x", Text: p.Text()}
	}
	check.Must(t, a.Add(t.Context(), []history.Entry{
		entry(at[0], point(1, 1, map[string]int64{"RATE_LIMITED": 3})),
		entry(at[2], point(7, 0, nil)),
	}, 10))
	check.Must(t, b.Add(t.Context(), []history.Entry{
		entry(at[0], point(1<<40, 4, map[string]int64{"RATE_LIMITED": 1, "TENANT_DISABLED": 2})),
	}, 10))
	texts, err := a.Points(t.Context(), weather.Field(), at)
	check.Must(t, err)
	sum := point(1<<40+1, 5, map[string]int64{"RATE_LIMITED": 4, "TENANT_DISABLED": 2})
	sum.Seen, sum.Usable = 4, 2
	for i, want := range []*history.Point{sum, {}, point(7, 0, nil)} {
		if got, _ := history.ParsePoint(texts[i]); texts[i] != "" && !reflect.DeepEqual(&got, want) {
			t.Errorf("step %d: %q is %+v, not %+v", i, texts[i], got, want)
		}
	}
	if texts[0] == "" || texts[1] != "" || texts[2] == "" {
		t.Errorf("steps: %q", texts)
	}
	all, err := b.All(t.Context(), at[0])
	if p, ok := history.ParsePoint(all[weather.Field()]); len(all) != 1 || !ok || p.Calls() != 1<<40+1 || err != nil {
		t.Errorf("all series: %v, %v", all, err)
	}
}

func testBound(t *testing.T, open func() history.Store) {
	s, at := open(), steps(1)[0]
	for _, name := range []string{"one", "two", "three", "two", "four"} {
		check.Must(t, s.Add(t.Context(), []history.Entry{{Step: at, Series: name, Other: "rest",
			Text: point(1, 0, nil).Text()}}, 2))
	}
	all, err := s.All(t.Context(), at)
	check.Must(t, err)
	calls := map[string]int64{}
	for name, text := range all {
		p, _ := history.ParsePoint(text)
		calls[name] = p.Calls()
	}
	if want := (map[string]int64{"one": 1, "two": 2, "rest": 2}); !reflect.DeepEqual(calls, want) {
		t.Errorf("%v, not %v", calls, want)
	}
}

func testReasons(t *testing.T, open func() history.Store) {
	s, at := open(), steps(1)[0]
	for _, reason := range []string{"A", "B", "C", "D", "E", "F", "G", "H", "I", "A"} {
		check.Must(t, s.Add(t.Context(), []history.Entry{{Step: at, Series: "s", Other: "rest",
			Text: point(1, 0, map[string]int64{reason: 1}).Text()}}, 2))
	}
	texts, err := s.Points(t.Context(), "s", []history.Step{at})
	check.Must(t, err)
	p, _ := history.ParsePoint(texts[0])
	if len(p.Reasons) != 8 || p.Reasons["A"] != 2 || p.Reasons[history.OtherReason] != 2 {
		t.Errorf("%q is %v", texts[0], p.Reasons)
	}
}

func testMarks(t *testing.T, open func() history.Store) {
	s := open()
	at := time.Now().UTC().Truncate(time.Second)
	first := history.Mark{At: at, Kind: history.Started, Replica: "a", Text: "v1"}
	second := history.Mark{At: at.Add(time.Second), Kind: history.Reloaded, Replica: "b"}
	check.Must(t, s.Mark(t.Context(), &first))
	check.Must(t, s.Mark(t.Context(), &second))
	marks, err := open().Marks(t.Context())
	if want := []history.Mark{second, first}; err != nil || !reflect.DeepEqual(marks, want) {
		t.Errorf("%+v, %v; not %+v", marks, err, want)
	}
}

func testAbsent(t *testing.T, open func() history.Store) {
	texts, err := open().Points(t.Context(), "nothing", steps(2))
	if err != nil || !reflect.DeepEqual(texts, []string{"", ""}) {
		t.Errorf("%q, %v", texts, err)
	}
}
