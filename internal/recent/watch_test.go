package recent_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/capgate/capgate/internal/recent"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestWatchersOfOneTenantMissNothing: calls of another tenant, however many, do not displace the unread calls of a
// watcher. A watcher of all calls that reads too slowly receives an event that it missed some.
func TestWatchersOfOneTenantMissNothing(t *testing.T) {
	t.Parallel()
	l := recent.New(recent.Config{Keep: 4096, Replica: "a"})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	type watch struct {
		began, reads chan struct{}
		events       chan recent.Event
		ended        chan error
	}
	begin := func(f *recent.Filter) *watch {
		w := &watch{make(chan struct{}), make(chan struct{}), make(chan recent.Event, 1000), make(chan error, 1)}
		go func() {
			w.ended <- l.WatchMatching(ctx, f, "", func(e recent.Event) error {
				if e.Kind == recent.Began {
					close(w.began)
					<-w.reads
				}
				w.events <- e
				return nil
			})
		}()
		check.Received(t, w.began, "the watch to begin")
		return w
	}
	globex, all := begin(&recent.Filter{Tenants: []string{"globex"}}), begin(nil)
	for i := range 600 {
		l.Record(record("acme", fmt.Sprint("loud", i), 0))
	}
	l.Record(record("globex", "quiet", 0))
	running, done := context.WithCancel(t.Context())
	published := make(chan struct{})
	go func() { l.Run(running); close(published) }()
	last := begin(&recent.Filter{Tool: "last"})
	l.Record(record("acme", "last", 0))
	close(last.reads)
	for e := (recent.Event{}); e.Call.Tool != "last"; {
		e = check.Received(t, last.events, "the last call")
	}
	close(globex.reads)
	close(all.reads)
	_ = check.Received(t, globex.events, "the beginning")
	if e := check.Received(t, globex.events, "globex's call"); e.Kind != recent.Ended || e.Call.Tool != "quiet" {
		t.Errorf("%+v", e)
	}
	for missed := false; !missed; {
		missed = check.Received(t, all.events, "missed calls").Kind == recent.Missed
	}
	stop()
	for _, w := range []*watch{globex, all, last} {
		_ = check.Received(t, w.ended, "the end of a watch")
	}
	done()
	check.Received(t, published, "the log to stop")
	l.Close()
}
