package history

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/telemetry"
)

// maxReasons bounds the reasons that a point distinguishes. Further ones count as OtherReason.
const maxReasons = 8

// OtherReason stands for further reasons of refusals.
const OtherReason = "OTHER"

// Quick are the bounds of the calls that are quicker than the first of telemetry.FewBounds.
var Quick = [...]time.Duration{ //nolint:gochecknoglobals // a constant
	500 * time.Microsecond, time.Millisecond, 2 * time.Millisecond}

// NumTook is the number of buckets of a Point: those of Quick, and then those of telemetry.FewBounds.
const NumTook = len(Quick) + telemetry.NumFew

// Point has the counts of one step.
type Point struct {
	Results [telemetry.NumResults]int64
	Took    [NumTook]int64 // the calls that reached a backend, by bucket
	// Seen is the number of times that a replica looked at a backend, and Usable of those when it got calls. Those of a
	// fleet are the sums of its backends.
	Seen, Usable int64
	Reasons      map[string]int64 // refusals
}

// Calls returns the number of calls.
func (p *Point) Calls() (n int64) {
	for _, one := range p.Results {
		n += one
	}
	return n
}

// Empty reports whether nothing was counted.
func (p *Point) Empty() bool { return p.Calls() == 0 && p.Seen == 0 }

// add adds a call. It allocates only for a reason that is new.
func (p *Point) add(c *counting) {
	p.Results[c.result]++
	if c.bucket >= 0 {
		p.Took[c.bucket]++
	}
	if c.result == telemetry.Refused {
		p.refuse(c.reason, 1)
	}
}

// bucketOf returns the bucket of a duration.
func bucketOf(d time.Duration) int {
	for i, bound := range &Quick {
		if d <= bound {
			return i
		}
	}
	return len(Quick) + telemetry.FewBucket(d)
}

// bound returns the upper bound of a bucket other than the last.
func bound(bucket int) time.Duration {
	if bucket < len(Quick) {
		return Quick[bucket]
	}
	return telemetry.FewBounds[bucket-len(Quick)]
}

// look adds a look at a backend.
func (p *Point) look(usable bool) {
	p.Seen++
	if usable {
		p.Usable++
	}
}

// refuse counts refusals.
func (p *Point) refuse(reason string, n int64) {
	if _, known := p.Reasons[reason]; !known {
		if p.Reasons == nil {
			p.Reasons = map[string]int64{}
		}
		if len(p.Reasons) >= maxReasons-1 {
			reason = OtherReason
		}
		reason = strings.Clone(reason)
	}
	p.Reasons[reason] += n
}

// Add adds the counts of another point.
func (p *Point) Add(q *Point) {
	for i := range p.Results {
		p.Results[i] += q.Results[i]
	}
	for i := range p.Took {
		p.Took[i] += q.Took[i]
	}
	p.Seen, p.Usable = p.Seen+q.Seen, p.Usable+q.Usable
	for _, reason := range slices.Sorted(maps.Keys(q.Reasons)) {
		p.refuse(reason, q.Reasons[reason])
	}
}

// numbers are the counts in the order of the text. The buckets of Quick are the last, so that texts of versions without
// them keep their meaning: all of their calls below 5 ms are in the bucket above 2 ms.
func (p *Point) numbers() []*int64 {
	var all []*int64
	for i := range p.Results {
		all = append(all, &p.Results[i])
	}
	all = append(all, &p.Seen, &p.Usable)
	for i := range p.Took {
		all = append(all, &p.Took[(i+len(Quick))%NumTook])
	}
	return all
}

// Text returns the counts separated by commas, without the zeros at the end, and REASON=COUNT after a space each.
// Stores add up such texts.
func (p *Point) Text() string {
	all := p.numbers()
	for len(all) > 1 && *all[len(all)-1] == 0 {
		all = all[:len(all)-1]
	}
	var text []byte
	for i, n := range all {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, *n, 10)
	}
	for _, reason := range slices.Sorted(maps.Keys(p.Reasons)) {
		text = append(append(append(text, ' '), reason...), '=')
		text = strconv.AppendInt(text, p.Reasons[reason], 10)
	}
	return string(text)
}

// maxText bounds the text of a point, in bytes.
const maxText = 2048

// ParsePoint reads the text of a point. ok is false for any other text.
func ParsePoint(text string) (p Point, ok bool) {
	if len(text) > maxText {
		return Point{}, false
	}
	numbers, reasons, _ := strings.Cut(text, " ")
	all := p.numbers()
	for i, one := range strings.Split(numbers, ",") {
		n, err := strconv.ParseInt(one, 10, 64)
		if err != nil || n < 0 || i >= len(all) {
			return Point{}, false
		}
		*all[i] = n
	}
	for one := range strings.FieldsSeq(reasons) {
		reason, count, _ := strings.Cut(one, "=")
		n, err := strconv.ParseInt(count, 10, 64)
		if err != nil || n < 0 {
			return Point{}, false
		}
		p.refuse(reason, n)
	}
	return p, true
}

// Quantile returns the duration that the fraction q of the calls did not exceed, estimated within a bucket; 0 if no
// call reached a backend. Calls in the last bucket count as of its lower bound.
func (p *Point) Quantile(q float64) time.Duration {
	var total int64
	for _, n := range p.Took {
		total += n
	}
	rank := q * float64(total)
	var below float64
	for i, n := range p.Took {
		if n == 0 || below+float64(n) < rank {
			below += float64(n)
			continue
		}
		lower := time.Duration(0)
		if i > 0 {
			lower = bound(i - 1)
		}
		if i == NumTook-1 {
			return lower
		}
		width := bound(i) - lower
		return lower + time.Duration(float64(width)*(rank-below)/float64(n))
	}
	return 0
}
