package health

import "testing"

func TestThreshold(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		rise, fall int
		results    string // + good, - bad
		want       string // state after each: u up, d down
	}{
		"first good decides":       {3, 3, "+", "u"},
		"first bad decides":        {3, 3, "-", "d"},
		"falls after two":          {2, 2, "+--", "uud"},
		"one failure is tolerated": {2, 2, "+-+-+", "uuuuu"},
		"rises after three":        {3, 2, "-+++", "dddu"},
		"one good is not enough":   {2, 1, "-+-+-++", "ddddddu"},
		"thresholds of one":        {1, 1, "+-+-", "udud"},
		"falls and rises in turn":  {2, 3, "+---++", "uuuddu"},
	} {
		j := threshold{rise: test.rise, fall: test.fall}
		for i, r := range test.results {
			before := j.state
			changed := j.observe(r == '+')
			if got := j.state.String()[0]; got != test.want[i] {
				t.Errorf("%s: after %s: %s", name, test.results[:i+1], j.state)
			}
			if changed != (before != j.state) {
				t.Errorf("%s: after %s: changed %v, from %s to %s", name, test.results[:i+1], changed, before, j.state)
			}
		}
	}
}
