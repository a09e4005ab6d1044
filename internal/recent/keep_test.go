package recent_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/metrictest"
)

// refusing is an archive that fails while err is set.
type refusing struct {
	recent.Archive
	err error
}

func (r *refusing) Keep(context.Context, []recent.Call, recent.Bounds) error { return r.err }

// TestAnArchiveThatRefusesIsSeen: calls that the archive does not accept are counted, and the log has the first failure
// and the end of the failures.
func TestAnArchiveThatRefusesIsSeen(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		var log bytes.Buffer
		archive := &refusing{}
		l := recent.New(recent.Config{Keep: 10, Replica: "a", Store: &batches{}, Archive: archive,
			Bounds: recent.Bounds{Calls: 10, Days: 1}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		run := func(err error, calls int) {
			archive.err = err
			for range calls {
				l.Record(record("acme", "x", 0))
			}
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			l.Run(ctx)
		}
		expect := func(kept, lost, failing float64, warned, again int) {
			t.Helper()
			m := metrictest.Read(t, l)
			if m["capgate_past_calls_kept_total"] != kept || m["capgate_past_calls_lost_total"] != lost ||
				m["capgate_past_calls_failing"] != failing {
				t.Errorf("%v; want %v kept, %v lost, failing %v", m, kept, lost, failing)
			}
			if strings.Count(log.String(), "level=WARN") != warned || strings.Count(log.String(), "again") != again {
				t.Errorf("log: %s", &log)
			}
		}
		run(nil, 2)
		expect(2, 0, 0, 0, 0)
		run(errors.New("OOM command not allowed"), 1)
		run(errors.New("OOM command not allowed"), 2)
		expect(2, 3, 1, 1, 0)
		if !strings.Contains(log.String(), "OOM") {
			t.Errorf("the log does not say why: %s", &log)
		}
		run(nil, 1)
		expect(3, 3, 0, 1, 1)
	})
}
