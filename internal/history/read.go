package history

import (
	"context"
	"time"
)

// Dated is the point of a step.
type Dated struct {
	Began time.Time
	Point
}

// Read returns the points of a series, the oldest first, up to the current step. The last one has what this replica has
// counted and not published yet.
func (l *Log) Read(ctx context.Context, of Series, span Span) ([]Dated, error) {
	steps := span.last(l.cfg.Now(), span.Steps)
	texts, err := l.cfg.Store.Points(ctx, of.Field(), steps)
	if err != nil {
		return nil, err
	}
	all := make([]Dated, len(steps))
	for i := range steps {
		all[i].Began = span.Began(steps[i].Number)
		if i < len(texts) && texts[i] != "" {
			all[i].Point, _ = ParsePoint(texts[i]) // a malformed text counts nothing
		}
	}
	l.addPending(of, &all[len(all)-1].Point)
	return all, nil
}

// addPending adds what this replica has not published.
func (l *Log) addPending(of Series, to *Point) {
	l.collect()
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.pending.all[of]; p != nil {
		to.Add(&p.Point)
	}
}

// last returns the last steps up to a time, the oldest first.
func (s Span) last(now time.Time, steps int) []Step {
	all := make([]Step, steps)
	for i := range all {
		all[i] = Step{s, s.Number(now) - int64(steps-1-i)}
	}
	return all
}

// LastHour returns the sums of all series of a kind within the last hour, the unpublished counts of this replica
// included. group is a capability; "": of all.
func (l *Log) LastHour(ctx context.Context, kind Kind, group string) (map[Series]*Point, error) {
	span := spans[1]
	sums := map[Series]*Point{}
	add := func(of Series, p *Point) {
		if of.Kind != kind || group != "" && of.Group != group {
			return
		}
		if sums[of] == nil {
			sums[of] = &Point{}
		}
		sums[of].Add(p)
	}
	for _, at := range span.last(l.cfg.Now(), int(time.Hour/span.Step)) {
		texts, err := l.cfg.Store.All(ctx, at)
		if err != nil {
			return nil, err
		}
		for field, text := range texts {
			of, ok := ParseField(field)
			p, also := ParsePoint(text)
			if ok && also {
				add(of, &p)
			}
		}
	}
	l.collect()
	l.mu.Lock()
	defer l.mu.Unlock()
	for of, p := range l.pending.all {
		if !p.Empty() {
			add(of, &p.Point)
		}
	}
	return sums, nil
}

// Marks returns the starts and reloads of replicas since a time, the newest first.
func (l *Log) Marks(ctx context.Context, since time.Time) ([]Mark, error) {
	all, err := l.cfg.Store.Marks(ctx)
	for i := range all {
		if all[i].At.Before(since) {
			return all[:i], err
		}
	}
	return all, err
}
