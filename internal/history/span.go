package history

import "time"

// Span is a length of time that is kept in steps of one length.
type Span struct {
	Name  string
	Step  time.Duration
	Steps int
}

// spans lists what is kept.
var spans = [...]Span{ //nolint:gochecknoglobals // a constant
	{"1h", time.Minute, 60},
	{"24h", 10 * time.Minute, 144},
	{"7d", time.Hour, 168},
}

// Spans returns all spans.
func Spans() []Span { return spans[:] }

// SpanOf returns the span of that name.
func SpanOf(name string) (s Span, ok bool) {
	for _, one := range spans {
		if one.Name == name {
			return one, true
		}
	}
	return Span{}, false
}

// Number returns the number of the step at a time.
func (s Span) Number(at time.Time) int64 { return at.Unix() / int64(s.Step/time.Second) }

// Began returns the start of a step.
func (s Span) Began(number int64) time.Time {
	return time.Unix(number*int64(s.Step/time.Second), 0).UTC()
}

// Keep returns how long a step is kept: until it is out of the span.
func (s Span) Keep() time.Duration { return s.Step * time.Duration(s.Steps+2) }
