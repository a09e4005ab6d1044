package recent

import (
	"context"
	"sync/atomic"

	"github.com/capgate/capgate/internal/lib/metric"
)

// kept counts the calls for the Archive.
type kept struct {
	stored, lost atomic.Int64
	failing      atomic.Bool // the Archive has refused the last batch
}

// archive adds calls to the Archive. Those that it does not accept are missing there, and are counted. The log has the
// first failure of a series, and its end.
func (l *Log) archive(ctx context.Context, calls []Call) {
	err := l.cfg.Archive.Keep(ctx, calls, l.cfg.Bounds)
	if err != nil {
		l.kept.lost.Add(int64(len(calls)))
	} else {
		l.kept.stored.Add(int64(len(calls)))
	}
	switch failed := err != nil; {
	case l.kept.failing.Swap(failed) == failed:
	case failed:
		l.cfg.Log.Warn("calls cannot be kept for the search of past days", "error", err)
	default:
		l.cfg.Log.Info("calls are kept for the search of past days again", "lost", l.kept.lost.Load())
	}
}

// Metrics implements metric.Source.
func (l *Log) Metrics() *metric.Set {
	m := metric.New("capgate_past_calls_")
	stored := m.Add("kept_total", "Calls that were added to those of past days.")
	lost := m.Add("lost_total", "Calls that could not be added to those of past days.")
	failing := m.Add("failing", "1 while calls cannot be added to those of past days.")
	m.Read = func(w metric.Writer) {
		w.Count(stored, l.kept.stored.Load())
		w.Count(lost, l.kept.lost.Load())
		w.Flag(failing, l.kept.failing.Load())
	}
	return m
}
