package approvals_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
)

// TestTalliesEstimateTimes: a quantile lies within the bucket of width √2 that contains the exact value.
func TestTalliesEstimateTimes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]time.Duration{ // from, to
		"1,0,0,0,1":   {1, time.Second},
		"0,1,0,0,0,1": {time.Second, 1414214 * time.Microsecond},
		"2,0,0,0" + strings.Repeat(",0", 13) + ",2": {64 * time.Second, 91 * time.Second},
		"9,0,5,0" + strings.Repeat(",0", 39) + ",9": {524288 * time.Second, 524288 * time.Second},
		"0,0,7,1":                      {0, 0},
		"":                             {-1, -1},
		"1,-1":                         {-1, -1},
		"x":                            {-1, -1},
		"1" + strings.Repeat(",0", 44): {-1, -1},
		"1,1,0,0,1" + strings.Repeat(",0", 38) + ",1": {1, time.Second},
	} {
		tally, ok := approvals.ParseTally(text)
		got := tally.Quantile(0.5)
		if ok != (want[0] >= 0) || ok && (got < want[0] || got > want[1]) {
			t.Errorf("%s: %v, %v; want %v", text, got, ok, want)
		}
	}
}

// fullDay is a store with a day of more tools than are counted separately.
type fullDay struct {
	memory
	others approvals.Tally
}

func (s *fullDay) Days(context.Context, string, []int64) ([]map[approvals.Series]approvals.Tally, error) {
	apart, _ := approvals.ParseTally("2")
	return []map[approvals.Series]approvals.Tally{{{Kind: approvals.OfTool, Others: true}: s.others,
		{Kind: approvals.OfTool, Capability: "mail", Tool: "send"}: apart}}, nil
}

// TestStatisticsSayWhatIsMissing: an operator of some capabilities gets no counts of tools that a day does not count
// separately, and the result is marked as incomplete.
func TestStatisticsSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for text, missing := range map[string]bool{"3": true, "0": false} {
		store := &fullDay{}
		store.others, _ = approvals.ParseTally(text)
		k, err := approvals.New(store, approvals.Options{})
		check.Must(t, err)
		for _, sees := range []approvals.Sees{nil, func(string, string) bool { return true }} {
			s, err := k.Statistics(t.Context(), []string{"acme"}, now, now, sees)
			check.Must(t, err)
			if s.Incomplete != (missing && sees != nil) || sees != nil && s.All.All() != 2 {
				t.Errorf("others %s, sees %v: incomplete %v, %d in all", text, sees != nil, s.Incomplete, s.All.All())
			}
		}
	}
}

// TestSeriesAreParsed: tools and people may have any name.
func TestSeriesAreParsed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]approvals.Series{
		"all":            {},
		"tool mail a b":  {Kind: approvals.OfTool, Capability: "mail", Tool: "a b"},
		"tool":           {Kind: approvals.OfTool, Others: true},
		"by all people":  {Kind: approvals.OfPerson, By: "all people"},
		"by":             {Kind: approvals.OfPerson, Others: true},
		"by tool mail x": {Kind: approvals.OfPerson, By: "tool mail x"},
	} {
		if got, ok := approvals.ParseSeries(text); !ok || got != want {
			t.Errorf("%q: %+v, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "all of them", "xyz"} {
		if got, ok := approvals.ParseSeries(text); ok {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
