package health_test

import (
	"slices"
	"testing"
	"time"

	"github.com/capgate/capgate/health"
)

// reader is a replica of which only the reads of one page count.
type reader struct {
	*health.Replica
	page int
	now  time.Time
}

// newReader makes a reader that has met another replica, and is about to read the page
// whole for the first time.
func newReader(t *testing.T) (*reader, health.PageRead) {
	t.Helper()
	r := &reader{
		Replica: health.NewReplica(health.ReplicaOptions{ID: "r0", Shared: true}),
		page:    health.PageOf("c"), now: time.Now(),
	}
	r.Set(r.now, []health.Fleet{{Capability: "c", Backends: []string{"a:1", "b:1"}}})
	reads := r.pass(time.Second)
	if len(reads) != 1 || !reads[0].Whole {
		t.Fatalf("at first: %+v", reads)
	}
	return r, reads[0]
}

// pass lets time go by, and returns how the page is to be read then. No probe ends.
func (r *reader) pass(d time.Duration) (reads []health.PageRead) {
	const tick = 50 * time.Millisecond
	for ; d >= 0; d -= tick {
		r.now = r.now.Add(tick)
		for work := r.Step(r.now); work.Beat != nil || len(work.Reads) > 0; work = r.Step(r.now) {
			if work.Beat != nil {
				r.Beaten(r.now, health.Members{Epoch: "e", Now: r.now.UnixMilli(), Members: []health.Member{{Replica: "r0"}, {Replica: "r1"}}}, nil)
			}
			for _, read := range work.Reads {
				if read.Page == r.page {
					reads = append(reads, read)
				} else {
					r.Read(r.now, read, health.Page{Now: r.now.UnixMilli()}, nil)
				}
			}
		}
	}
	return reads
}

// answer ends a read.
func (r *reader) answer(read health.PageRead, version uint64) {
	p := health.Page{Version: version, Now: r.now.UnixMilli()}
	if read.Whole {
		p.Entries = []health.Entry{r.up("a:1")}
	}
	r.Read(r.now, read, p, nil)
}

// hear tells of versions of the page.
func (r *reader) hear(versions ...uint64) {
	for _, version := range versions {
		r.Noticed(r.now, health.Notice{Page: r.page, Version: version, Entries: []health.Entry{r.up("b:1")}})
	}
}

func (r *reader) up(addr string) health.Entry {
	return health.Entry{
		Key:  health.Key{Capability: "c", Addr: addr},
		Vote: &health.Vote{State: health.Up, By: "r1", Written: r.now.UnixMilli(), Since: r.now.UnixMilli()},
	}
}

// knows says which backends are known to be up.
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

// A page is read whole when something was missed, and not for what is told anyway.
func TestPageIsReadForWhatWasMissed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		during []uint64 // versions that are told before the answer
		answer uint64   // the version that is on the board; 10 is known
		after  []uint64 // versions that are told after it
		whole  bool     // the page is to be read
	}{
		"nothing new":                  {answer: 10},
		"told before the answer":       {during: []uint64{11, 12}, answer: 12},
		"told more than was there":     {during: []uint64{11, 12, 13}, answer: 11},
		"told after the answer":        {during: []uint64{11}, answer: 13, after: []uint64{12, 13, 14}},
		"not told":                     {answer: 11, whole: true},
		"told in part":                 {answer: 12, after: []uint64{11}, whole: true},
		"told with a gap":              {answer: 10, after: []uint64{12}, whole: true},
		"told with a gap before":       {during: []uint64{12}, answer: 12, whole: true},
		"the board has lost something": {answer: 9, whole: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, read := newReader(t)
			r.answer(read, 10)
			reads := r.pass(13 * time.Second)
			if len(reads) != 1 || reads[0].Whole || reads[0].Have != 10 {
				t.Fatalf("in the next 13 s: %+v", reads)
			}
			r.hear(c.during...)
			r.answer(reads[0], c.answer)
			r.hear(c.after...)
			reads = r.pass(time.Second)
			if c.whole != (len(reads) == 1 && reads[0].Whole) || !c.whole && len(reads) > 0 {
				t.Fatalf("in the second after: %+v", reads)
			}
			if c.whole {
				r.answer(reads[0], 20)
			}
			if reads = r.pass(12 * time.Second); len(reads) != 1 || reads[0].Whole {
				t.Errorf("in the 12 s after: %+v", reads)
			}
		})
	}
}

// What is told while a page is read, and follows on what is read, need not be read.
func TestToldWhileAPageIsRead(t *testing.T) {
	t.Parallel()
	r, read := newReader(t)
	r.hear(9, 10, 11, 12, 13)
	if up := r.knows(); len(up) > 0 {
		t.Errorf("before the page was read: %v", up)
	}
	r.answer(read, 11)
	if up := r.knows(); !slices.Equal(up, []string{"a:1", "b:1"}) {
		t.Errorf("known: %v", up)
	}
	if reads := r.pass(13 * time.Second); len(reads) != 1 || reads[0].Whole || reads[0].Have != 13 {
		t.Errorf("then: %+v", reads)
	}
	r, read = newReader(t)
	r.hear(13)
	r.answer(read, 11)
	if reads := r.pass(time.Second); len(reads) != 1 || !reads[0].Whole {
		t.Errorf("after a gap: %+v", reads)
	}
}
