package approvals_test

import (
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/policy/approvals"
)

// TestTalliesEstimateTimes: a quantile is within the bucket of √2 that has the answer.
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

// TestSeriesAreParsed: a tool and a person may have any name.
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
