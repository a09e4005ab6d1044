package history

import "context"

// Step names a step of a span.
type Step struct {
	Span   Span
	Number int64
}

// Entry is a point of a series at a step. If the step has too many series, it counts for Other.
type Entry struct {
	Step          Step
	Series, Other string // fields
	Text          string // of the point to add
}

// MaxEntries bounds the points that are added at once, so that they hold up Redis for less than a millisecond.
const MaxEntries = 100

// Store is shared by replicas. Its errors mean that it does not respond.
type Store interface {
	// Add adds at most MaxEntries points, all or none. A step has at most the given number of series.
	Add(ctx context.Context, entries []Entry, series int) error
	// Points returns the texts of a series at steps, "" where there is none.
	Points(ctx context.Context, series string, steps []Step) ([]string, error)
	// All returns the texts of all series at a step, by field.
	All(ctx context.Context, at Step) (map[string]string, error)
	// Mark adds a mark. The newest MaxMarks are kept.
	Mark(ctx context.Context, m *Mark) error
	Marks(ctx context.Context) ([]Mark, error) // the newest first
}
