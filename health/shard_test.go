package health_test

import (
	"slices"
	"testing"
	"time"

	"github.com/capgate/capgate/health"
)

// reader is a replica; the test answers its reads of one shard.
type reader struct {
	*health.Replica
	page int
	now  time.Time
}

// newReader returns a reader that has a peer, and its first, full read of the shard.
func newReader(t *testing.T) (*reader, health.ShardRead) {
	t.Helper()
	r := &reader{
		Replica: health.NewReplica(health.ReplicaOptions{ID: "r0", Shared: true}),
		page:    health.ShardOf("c"), now: time.Now(),
	}
	r.Set(r.now, []health.Fleet{{Capability: "c", Backends: []string{"a:1", "b:1"}}})
	reads := r.pass(time.Second)
	if len(reads) != 1 || !reads[0].Full {
		t.Fatalf("at first: %+v", reads)
	}
	return r, reads[0]
}

// pass advances the clock and returns the reads of the shard that became due. No probe ends.
func (r *reader) pass(d time.Duration) (reads []health.ShardRead) {
	const tick = 50 * time.Millisecond
	for ; d >= 0; d -= tick {
		r.now = r.now.Add(tick)
		for work := r.Step(r.now); work.Heartbeat != nil || len(work.Reads) > 0; work = r.Step(r.now) {
			if work.Heartbeat != nil {
				r.beat()
			}
			for _, read := range work.Reads {
				if read.Shard == r.page {
					reads = append(reads, read)
				} else {
					r.OnShard(r.now, read, health.Shard{Now: r.now.UnixMilli()}, nil)
				}
			}
		}
	}
	return reads
}

// beat completes a heartbeat.
func (r *reader) beat() {
	r.OnHeartbeat(r.now, health.Members{
		Epoch: "e", Now: r.now.UnixMilli(), Members: []health.Member{{Replica: "r0"}, {Replica: "r1"}},
	}, nil)
}

// answer completes a read.
func (r *reader) answer(read health.ShardRead, version uint64) {
	p := health.Shard{Version: version, Now: r.now.UnixMilli()}
	if read.Full {
		p.Entries = []health.Entry{r.up("a:1")}
	}
	r.OnShard(r.now, read, p, nil)
}

// receive delivers events with versions of the shard.
func (r *reader) receive(versions ...uint64) {
	for _, version := range versions {
		r.OnEvent(r.now, health.Event{Shard: r.page, Version: version, Previous: version - 1,
			Entries: []health.Entry{r.up("b:1")}})
	}
}

func (r *reader) up(addr string) health.Entry {
	return health.Entry{
		Key: health.Key{Capability: "c", Addr: addr},
		Observation: &health.Observation{State: health.Up, By: "r1", Written: r.now.UnixMilli(),
			Since: r.now.UnixMilli()},
	}
}

// knows returns the backends that are up in the latest snapshot.
func (r *reader) knows() (up []string) {
	changes := r.Changes()
	if len(changes) == 0 {
		return nil
	}
	for _, b := range changes[len(changes)-1].Snapshot.Backends {
		if b.State == health.Up {
			up = append(up, b.Addr)
		}
	}
	return up
}

// A shard is read in full when an event was missed, and only then.
func TestFullReadAfterMissedEvent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		during []uint64 // versions of events before the answer
		answer uint64   // the stored version; 10 is known
		after  []uint64 // versions of events after it
		whole  bool     // a full read follows
	}{
		"nothing new":                  {answer: 10},
		"events before the answer":     {during: []uint64{11, 12}, answer: 12},
		"newer events than the answer": {during: []uint64{11, 12, 13}, answer: 11},
		"events after the answer":      {during: []uint64{11}, answer: 13, after: []uint64{12, 13, 14}},
		"no event":                     {answer: 11, whole: true},
		"only the first event":         {answer: 12, after: []uint64{11}, whole: true},
		"a gap after the answer":       {answer: 10, after: []uint64{12}, whole: true},
		"a gap before the answer":      {during: []uint64{12}, answer: 12, whole: true},
		"the store has lost content":   {answer: 9, whole: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, read := newReader(t)
			r.answer(read, 10)
			reads := r.pass(13 * time.Second)
			if len(reads) != 1 || reads[0].Full || reads[0].Known != 10 {
				t.Fatalf("in the next 13 s: %+v", reads)
			}
			r.receive(c.during...)
			r.answer(reads[0], c.answer)
			r.receive(c.after...)
			reads = r.pass(time.Second)
			if c.whole != (len(reads) == 1 && reads[0].Full) || !c.whole && len(reads) > 0 {
				t.Fatalf("in the second after: %+v", reads)
			}
			if c.whole {
				r.answer(reads[0], 20)
			}
			if reads = r.pass(12 * time.Second); len(reads) != 1 || reads[0].Full {
				t.Errorf("in the 12 s after: %+v", reads)
			}
		})
	}
}

// A store that has failed over to a copy, which lacked versions 9 and 10, goes on with larger versions.
func TestFullReadAfterAFailover(t *testing.T) {
	t.Parallel()
	r, read := newReader(t)
	r.answer(read, 10)
	r.pass(13 * time.Second)
	r.OnEvent(r.now, health.Event{Shard: r.page, Version: 11, Previous: 8, Entries: []health.Entry{r.up("b:1")}})
	if reads := r.pass(time.Second); len(reads) != 0 {
		t.Errorf("while it reads: %+v", reads)
	}
	r.answer(health.ShardRead{Shard: r.page, Known: 10}, 11)
	if reads := r.pass(time.Second); len(reads) != 1 || !reads[0].Full {
		t.Errorf("after it: %+v", reads)
	}
}

// Events that arrive during a read, and follow its version, are applied without a second read.
func TestEventsDuringARead(t *testing.T) {
	t.Parallel()
	r, read := newReader(t)
	r.receive(9, 10, 11, 12, 13)
	if up := r.knows(); len(up) > 0 {
		t.Errorf("before the shard was read: %v", up)
	}
	r.answer(read, 11)
	if up := r.knows(); !slices.Equal(up, []string{"a:1", "b:1"}) {
		t.Errorf("known: %v", up)
	}
	if reads := r.pass(13 * time.Second); len(reads) != 1 || reads[0].Full || reads[0].Known != 13 {
		t.Errorf("then: %+v", reads)
	}
	r, read = newReader(t)
	r.receive(13)
	r.answer(read, 11)
	if reads := r.pass(time.Second); len(reads) != 1 || !reads[0].Full {
		t.Errorf("after a gap: %+v", reads)
	}
}
