package recent

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/telemetry"
)

// divided returns a Log with four cells.
func divided(keep int) *Log {
	l := New(Config{Keep: keep, Replica: "a"})
	l.divide(4)
	return l
}

// recordAt records a call of a tenant at a shard. The calls end in the order of i.
func recordAt(l *Log, shard, i int, tenant string) {
	l.Record(&telemetry.Record{Call: &call.Call{Tenant: tenant, Tool: fmt.Sprint(i)}, Shard: uint32(shard),
		Started: time.Unix(1_900_000_000, int64(i))})
}

// TestCallsOfAllShardsAreOneList: the last calls are the same, in the same order, whichever shards record them, and all
// calls are counted.
func TestCallsOfAllShardsAreOneList(t *testing.T) {
	t.Parallel()
	l := divided(100)
	for i := range 1000 {
		recordAt(l, i*i%7, i, "acme")
		if i%250 == 249 && i < 700 { // some calls are merged before the others
			l.batch(time.Now())
		}
	}
	calls, _ := l.Calls(t.Context())
	if len(calls) != 100 {
		t.Fatalf("%d calls", len(calls))
	}
	for i := range calls {
		if want := fmt.Sprint(999 - i); calls[i].Tool != want {
			t.Errorf("call %d is %s; want %s", i, calls[i].Tool, want)
		}
	}
	if _, sent := l.batch(time.Now()); len(sent) != maxBatch {
		t.Errorf("%d calls are published", len(sent))
	}
	minutes, _ := l.Minutes(t.Context(), []string{"acme"})
	if n := minutes[Window-1].Calls + minutes[Window-2].Calls; n != 1000 {
		t.Errorf("%d calls are counted", n)
	}
}

// TestSharesOfAllShards: a tenant that is loud at all shards displaces no call of a quiet one.
func TestSharesOfAllShards(t *testing.T) {
	t.Parallel()
	l, of := divided(100), map[string]int{}
	for i := range 10 {
		recordAt(l, i, i, "quiet")
	}
	for i := range 10_000 {
		recordAt(l, i, 10+i, "loud")
	}
	calls, _ := l.Calls(t.Context())
	for i := range calls {
		of[calls[i].Tenant]++
	}
	if of["quiet"] != 10 || of["loud"] != 90 {
		t.Errorf("%v", of)
	}
}

// TestShardsRecordWhileCallsArePublished: each call is published once, and is counted.
func TestShardsRecordWhileCallsArePublished(t *testing.T) {
	t.Parallel()
	const shards, each = 8, 100
	l := divided(shards * each)
	var recording sync.WaitGroup
	for shard := range shards {
		recording.Go(func() {
			for i := range each {
				recordAt(l, shard, shard*each+i, "acme")
			}
		})
	}
	recorded := make(chan struct{})
	go func() { recording.Wait(); close(recorded) }()
	published := map[string]int{}
	for last := false; ; {
		select {
		case <-recorded:
			last = true
		default:
		}
		b, _ := l.batch(time.Now())
		for i := range b.Calls {
			published[b.Calls[i].Tool]++
		}
		if last && len(b.Calls) == 0 {
			break
		}
	}
	for tool, n := range published {
		if n != 1 {
			t.Errorf("call %s is published %d times", tool, n)
		}
	}
	if len(published) != shards*each {
		t.Errorf("%d calls are published", len(published))
	}
	var counted int64
	for _, m := range l.own.list(time.Now(), nil) {
		counted += m.Calls
	}
	if counted != shards*each {
		t.Errorf("%d calls are counted", counted)
	}
}

// TestMemoryOfABurst: the memory that a burst of calls needs is released when there are few calls.
func TestMemoryOfABurst(t *testing.T) {
	t.Parallel()
	l := divided(1000)
	slots := func() (n int) {
		for i := range l.cells {
			n += len(l.cells[i].ring.slots) + len(l.spares[i].slots)
		}
		return n
	}
	calls := 0
	record := func(each int) {
		for range each * len(l.cells) {
			recordAt(l, calls, calls, "acme")
			calls++
		}
		l.batch(time.Now())
	}
	record(1000)
	record(1000)
	if n := slots(); n != 2*1000*len(l.cells) {
		t.Errorf("%d slots after a burst", n)
	}
	for range 2 * idleDrains {
		record(1)
	}
	if n := slots(); n > 2*minSlots*len(l.cells) {
		t.Errorf("%d slots after the burst", n)
	}
	record(200) // no call is lost by it
	if kept, _ := l.Calls(t.Context()); len(kept) != 1000 || kept[999].Tool != fmt.Sprint(calls-1000) {
		t.Errorf("%d calls", len(kept))
	}
}
