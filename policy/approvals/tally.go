package approvals

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	numOutcomes = len(outcomeNames) - 1
	// numWaits is the number of buckets of times to the answer. The first one ends at 1 s, and each further one at √2
	// times the end of the one before it; the last one has no end.
	numWaits = 40
)

// Tally counts approvals that have ended.
type Tally struct {
	outcomes [numOutcomes]int64
	waits    [numWaits]int64 // of those that were answered
}

// Of returns the number of an outcome.
func (t *Tally) Of(o Outcome) int64 { return t.outcomes[o-1] }

// Answered returns the number of answers.
func (t *Tally) Answered() int64 { return t.Of(PastApproved) + t.Of(PastDenied) }

// All returns the number of approvals.
func (t *Tally) All() (n int64) {
	for _, one := range t.outcomes {
		n += one
	}
	return n
}

// Add adds the counts of another tally.
func (t *Tally) Add(u *Tally) {
	for i := range t.outcomes {
		t.outcomes[i] += u.outcomes[i]
	}
	for i := range t.waits {
		t.waits[i] += u.waits[i]
	}
}

// Quantile returns the time in which the fraction q of the answers was given, estimated within a bucket; 0: there are
// no answers. Answers in the last bucket count as of its start.
func (t *Tally) Quantile(q float64) time.Duration {
	var total int64
	for _, n := range t.waits {
		total += n
	}
	rank, below := q*float64(total), 0.0
	for i, n := range t.waits {
		if n == 0 || below+float64(n) < rank {
			below += float64(n)
			continue
		}
		start, part := waitEnd(i-1), (rank-below)/float64(n)
		if i == numWaits-1 {
			part = 0
		}
		return (start + time.Duration(part*float64(waitEnd(i)-start))).Round(time.Millisecond)
	}
	return 0
}

// waitEnd returns the end of a bucket.
func waitEnd(bucket int) time.Duration {
	if bucket < 0 {
		return 0
	}
	return time.Duration(math.Pow(2, float64(bucket)/2) * float64(time.Second))
}

// ParseTally parses the counts of the outcomes and then of the buckets, with commas between them, and without the zeros
// at the end. ok is false for any other text.
func ParseTally(text string) (t Tally, ok bool) {
	if len(text) > 1024 {
		return Tally{}, false
	}
	for i, one := range strings.Split(text, ",") {
		n, err := strconv.ParseInt(one, 10, 64)
		switch {
		case err != nil || n < 0 || i >= numOutcomes+numWaits:
			return Tally{}, false
		case i < numOutcomes:
			t.outcomes[i] = n
		default:
			t.waits[i-numOutcomes] = n
		}
	}
	return t, true
}

// Series names what a tally counts. The zero value is all approvals of a tenant.
type Series struct {
	Tool       string
	Capability string // of the tool
	By         string // the person who answered
	Others     bool   // the sum of the further tools, or people
	Kind       SeriesKind
}

// SeriesKind is a kind of series.
type SeriesKind uint8

// The kinds.
const (
	OfAll SeriesKind = iota
	OfTool
	OfPerson
)

// ParseSeries parses "all", "tool CAPABILITY TOOL", "by NAME", or "tool" or "by" for the others. ok is false for any
// other text.
func ParseSeries(text string) (s Series, ok bool) {
	kind, rest, named := strings.Cut(text, " ")
	s.Others = !named
	switch kind {
	case "all":
		return Series{}, !named
	case "tool":
		s.Kind = OfTool
		s.Capability, s.Tool, _ = strings.Cut(rest, " ")
		return s, true
	case "by":
		s.Kind, s.By = OfPerson, rest
		return s, true
	}
	return Series{}, false
}

// Day is the tally of one day, in UTC.
type Day struct {
	Began time.Time
	Tally
}

// Counted is the tally of a series.
type Counted struct {
	Series
	Tally
}

// Statistics count the approvals that ended on some days.
type Statistics struct {
	All           Tally
	Days          []Day     // the oldest first; also those without approvals
	Tools, People []Counted // those with the most first
	Incomplete    bool      // approvals of tools that no day counts apart are missing
}

// Sees reports whether approvals of a capability of a tenant are visible.
type Sees func(tenant, capability string) bool

// Statistics returns the statistics of some tenants for the days of a time range. If sees is not nil, they are the sums
// of visible tools, without people. Its error is a *call.Refusal.
func (k *Service) Statistics(ctx context.Context, tenants []string, from, to time.Time, sees Sees) (*Statistics,
	error) {
	first, last := dayOf(from), dayOf(to)
	first = max(first, last-int64(PastAge/day))
	days := make([]int64, 0, PastAge/day+1)
	for n := first; n <= last; n++ {
		days = append(days, n)
	}
	s, series := &Statistics{Days: make([]Day, len(days))}, map[Series]*Tally{}
	for i, n := range days {
		s.Days[i].Began = time.Unix(n*int64(day/time.Second), 0).UTC()
	}
	for _, tenant := range tenants {
		tallies, err := k.store.Days(ctx, tenant, days)
		if err != nil {
			return nil, refusedUnavailable
		}
		for i, tallied := range tallies {
			for of, t := range tallied {
				if sees != nil && of.Kind == OfTool && of.Others && t.All() > 0 {
					s.Incomplete = true // they may be visible
				}
				if sees != nil && (of.Kind != OfTool || of.Others || !sees(tenant, of.Capability)) {
					continue
				}
				if of.Kind == OfAll || sees != nil {
					s.All.Add(&t)
					s.Days[i].Add(&t)
				}
				if of.Kind == OfAll {
					continue
				}
				if series[of] == nil {
					series[of] = new(Tally)
				}
				series[of].Add(&t)
			}
		}
	}
	s.sort(series)
	return s, nil
}

// dayOf returns the number of a time's day since 1970.
func dayOf(t time.Time) int64 { return t.Unix() / int64(day/time.Second) }

// maxCounted bounds the tools and the people of statistics. Further ones are counted as others.
const maxCounted = 100

// sort sets the tools and the people.
func (s *Statistics) sort(series map[Series]*Tally) {
	for kind, list := range map[SeriesKind]*[]Counted{OfTool: &s.Tools, OfPerson: &s.People} {
		others := Counted{Series: Series{Kind: kind, Others: true}}
		for of, t := range series {
			switch {
			case of.Kind != kind:
			case of.Others:
				others.Add(t)
			default:
				*list = append(*list, Counted{of, *t})
			}
		}
		slices.SortFunc(*list, func(a, b Counted) int {
			return cmp.Or(cmp.Compare(b.All(), a.All()), strings.Compare(a.Capability, b.Capability),
				strings.Compare(a.Tool, b.Tool), strings.Compare(a.By, b.By))
		})
		for len(*list) > maxCounted {
			others.Add(&(*list)[len(*list)-1].Tally)
			*list = (*list)[:len(*list)-1]
		}
		if others.All() > 0 {
			*list = append(*list, others)
		}
	}
}
