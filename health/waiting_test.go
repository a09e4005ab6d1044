package health_test

import (
	"testing"
	"time"

	"github.com/capgate/capgate/health"
)

// TestNoticeThatWaits: if the notice of a publication waits in the store, and does not arrive, the version of its shard
// is read when the notice is due, which sends it. The shard is read in full only if an event is lost.
func TestNoticeThatWaits(t *testing.T) {
	t.Parallel()
	const wait = 600 * time.Millisecond
	for name, c := range map[string]struct {
		before []uint64 // versions of events before the notice is due; 10 is known
		early  bool     // a full read follows before the notice is due
		reads  bool     // the version is read when the notice is due
		got    health.Shard
		after  []uint64 // versions of events after that read
		again  bool     // the version is read again
		whole  bool     // a full read follows
	}{
		"a notice arrives":     {before: []uint64{11}},
		"the read sends it":    {reads: true, got: health.Shard{Version: 11}, after: []uint64{11}},
		"the event is lost":    {reads: true, got: health.Shard{Version: 11}, whole: true},
		"the changes are lost": {reads: true, got: health.Shard{Version: 10}},
		"it must wait longer":  {reads: true, got: health.Shard{Version: 10, Wait: wait}, again: true},
		"a part is sent": {reads: true, got: health.Shard{Version: 11, Wait: wait}, after: []uint64{11},
			again: true},
		"an earlier event was missed":   {before: []uint64{12}, early: true},
		"the store has lost everything": {reads: true, got: health.Shard{Version: 9}, whole: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, read := newReader(t)
			r.answer(read, 10)
			r.OnPublish(r.now, nil, []health.Waiting{{Shard: r.page, Version: 10, Wait: wait}}, nil)
			r.receive(c.before...)
			if reads := r.pass(wait - 100*time.Millisecond); c.early != (len(reads) == 1 && reads[0].Full) ||
				!c.early && len(reads) > 0 {
				t.Fatalf("before the notice is due: %+v", reads)
			}
			if c.early {
				return
			}
			reads := r.pass(wait/2 + 50*time.Millisecond)
			if c.reads != (len(reads) == 1 && !reads[0].Full) || !c.reads && len(reads) > 0 {
				t.Fatalf("when it is due: %+v", reads)
			}
			if !c.reads {
				return
			}
			r.OnShard(r.now, reads[0], c.got, nil)
			r.receive(c.after...)
			if reads = r.pass(wait + wait/2); len(reads) > 0 != (c.whole || c.again) ||
				len(reads) > 0 && reads[0].Full != c.whole {
				t.Errorf("after the read: %+v", reads)
			}
		})
	}
}

// TestWaitingObservationIsLost: a store that fails over to a copy loses an observation whose notice waits, and sends
// notices of others. As soon as none waits, the observation is published again, but not if its notice arrived.
func TestWaitingObservationIsLost(t *testing.T) {
	t.Parallel()
	for _, arrives := range []bool{false, true} {
		r, read := newReader(t)
		r.answer(read, 10)
		var reports []health.Report
		// step completes probes, and answers reads with a version, until a report is published.
		step := func(version uint64) {
			reports = nil
			for end := r.now.Add(15 * time.Second); r.now.Before(end) && len(reports) == 0; {
				r.now = r.now.Add(50 * time.Millisecond)
				work := r.Step(r.now)
				reports = work.Publish
				for _, probe := range work.Probes {
					r.OnProbe(r.now, probe, health.Result{OK: true})
				}
				for _, read := range work.Reads {
					r.OnShard(r.now, read, health.Shard{Version: version, Now: r.now.UnixMilli()}, nil)
				}
				if work.Heartbeat != nil {
					r.beat()
				}
			}
		}
		step(10)
		if len(reports) == 0 {
			t.Fatal("nothing is published")
		}
		r.OnPublish(r.now, reports, []health.Waiting{{Shard: r.page, Version: 10, Wait: time.Second}}, nil)
		lost := reports
		event := health.Event{Shard: r.page, Version: 11, Previous: 10}
		if arrives {
			for _, report := range lost {
				event.Entries = append(event.Entries, health.Entry{Key: report.Key, Observation: report.Observation})
			}
		}
		r.OnEvent(r.now, event)
		if step(11); arrives != (len(reports) == 0) || !arrives && reports[0].Key != lost[0].Key {
			t.Errorf("its notice arrives: %v; published: %+v", arrives, reports)
		}
	}
}
