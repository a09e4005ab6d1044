package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

func open(t *testing.T, most int) *Queue {
	t.Helper()
	queue, err := New(most)
	check.Must(t, err)
	t.Cleanup(queue.Close)
	return queue
}

// hold keeps the queue from admitting requests until release is called.
func (q *Queue) hold() (release func()) {
	q.mu.Lock()
	signaled := q.signaled
	q.left, q.signaled = 0, true // so signal does not write
	q.mu.Unlock()
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.signaled = signaled
		q.signal()
	}
}

// waitFor waits until n requests wait.
func (q *Queue) waitFor(t *testing.T, n int) {
	t.Helper()
	atOnce := make(chan struct{}) // a pause would be long for the hundreds that come one by one
	close(atOnce)
	check.UntilEvent(t, fmt.Sprint(n, " requests to wait"), func() (bool, int, <-chan struct{}) {
		runtime.Gosched()
		q.mu.Lock()
		defer q.mu.Unlock()
		waiting := 0
		for _, l := range q.tenants {
			waiting += l.waiting + len(l.resumed)
		}
		return waiting == n, waiting, atOnce
	})
}

func TestTenantsInTurn(t *testing.T) {
	t.Parallel()
	q := open(t, 100)
	release := q.hold()
	var order strings.Builder
	var all sync.WaitGroup
	for i, who := range strings.Fields("a a a a a a b b c A A B") {
		all.Go(func() {
			var err error
			if tenant := strings.ToLower(who); tenant != who {
				err = q.WaitAgain(check.Context(t), tenant)
			} else {
				err = q.Wait(check.Context(t), who, "")
			}
			if err != nil {
				t.Error(err)
			}
		})
		q.waitFor(t, i+1)
	}
	q.mu.Lock()
	for len(q.ready) > 0 { // requests that it would admit
		l := q.ready[0]
		who := l.tenant
		if len(l.resumed) > 0 {
			who = strings.ToUpper(who)
		}
		order.WriteString(who)
		q.pop().admit(0)
	}
	q.mu.Unlock()
	check.Ended(t, &all, "all in the queue to get a place")
	if order.String() != "ABcAbabaaaaa" {
		t.Errorf("the order is %s", &order)
	}
	release()
}

// admitted is a request of a tenant, and the turn in which it began.
type admitted struct {
	tenant string
	turn   uint64
}

// turns has requests of tenants wait until all are there, and counts them when they are admitted.
func (q *Queue) turns(t *testing.T, tenants string) map[admitted]int {
	t.Helper()
	release, all := q.hold(), strings.Fields(tenants)
	ended := make(chan admitted, len(all))
	for i, tenant := range all {
		go func() {
			turn, err := q.wait(check.Context(t), tenant, "")
			if err != nil {
				t.Error(err)
			}
			ended <- admitted{tenant, turn}
		}()
		q.waitFor(t, i+1)
	}
	release()
	turns := map[admitted]int{}
	for range all {
		turns[check.Received(t, ended, "a request's turn")]++
	}
	return turns
}

// A turn admits a batch, and one request of each tenant before a second one of any.
func TestBatches(t *testing.T) {
	t.Parallel()
	q := open(t, 100)
	for range batch { // the first of another tenant than before
		if turn, err := q.wait(check.Context(t), "a", ""); turn != 1 || err != nil {
			t.Errorf("a request of the first batch: turn %d, %v", turn, err)
		}
	}
	want := map[admitted]int{{"a", 2}: 2, {"b", 2}: 1, {"c", 2}: 1, {"a", 3}: 4}
	if turns := q.turns(t, "a a a a a a b c"); !maps.Equal(turns, want) {
		t.Errorf("%v, want %v", turns, want)
	}
}

// A turn admits more while there is one tenant, and until a while after there were two it does not.
func TestBatchesOfOneTenant(t *testing.T) {
	t.Parallel()
	q := open(t, 100)
	many := strings.Repeat("a ", soleBatch+1)
	turn := func() uint64 { return q.turn.Load() }
	q.turns(t, "a")
	for range politeTurns {
		q.turns(t, "a")
	}
	before := turn()
	want := map[admitted]int{{"a", before + 1}: soleBatch, {"a", before + 2}: 1}
	if turns := q.turns(t, many); !maps.Equal(turns, want) {
		t.Errorf("one tenant: %v, want %v", turns, want)
	}
	if err := q.Wait(check.Context(t), "b", ""); err != nil { // in the turn that admitted one
		t.Error(err)
	}
	if q.left >= batch {
		t.Errorf("the turn admits %d more", q.left)
	}
	before = turn()
	want = map[admitted]int{}
	for i := range soleBatch/batch + 1 {
		want[admitted{"a", before + 1 + uint64(i)}] = batch
	}
	want[admitted{"a", before + 1 + soleBatch/batch}] = 1
	if turns := q.turns(t, many); !maps.Equal(turns, want) {
		t.Errorf("after another tenant: %v, want %v", turns, want)
	}
}

// While calls arrive that do not pass the queue, a turn has one request.
func TestBatchesBesideCalls(t *testing.T) {
	t.Parallel()
	q := open(t, 100)
	q.CallArrived()
	before := q.turn.Load()
	want := map[admitted]int{{"a", 0}: 4, {"b", 0}: 1} // all of them wait again for their bodies
	if turns := q.turns(t, "a a a a b"); !maps.Equal(turns, want) || q.turn.Load() != before+5 {
		t.Errorf("beside a call: %v, and %d turns", turns, q.turn.Load()-before)
	}
	for range politeTurns {
		q.turns(t, "a")
	}
	before = q.turn.Load()
	want = map[admitted]int{{"a", before + 1}: 3, {"b", before + 1}: 1, {"a", before + 2}: 1}
	if turns := q.turns(t, "a a a a b"); !maps.Equal(turns, want) {
		t.Errorf("long after it: %v, want %v", turns, want)
	}
}

// Behind a backlog, the requests of a tenant without one get turns with a single request each. A backlog alone does not
// shorten turns, nor do tenants without one.
func TestTurnsBehindABacklog(t *testing.T) {
	t.Parallel()
	q := open(t, 100)
	many := strings.Repeat("a ", 3*backlog)
	sizes := func(tenants string) (all []int) {
		return slices.Sorted(maps.Values(perTurn(q.turns(t, tenants))))
	}
	for range 2 {
		if got := sizes(many); len(got) != 3*backlog/batch {
			t.Errorf("a backlog alone: turns of %v", got)
		}
	}
	if got := sizes(many + "b"); len(got) != 3*backlog+1 {
		t.Errorf("a request behind the backlog: turns of %v", got)
	}
	q.single, q.flooded = 0, 0 // long after it
	if got := sizes("a a b b c c d d"); len(got) != 8/batch {
		t.Errorf("four tenants without a backlog: turns of %v", got)
	}
}

// A request is sparse while no other request of its tenant waits.
func TestSparseRequests(t *testing.T) {
	t.Parallel()
	q, sparse := open(t, 100), 0
	q.OnSparse(func() { sparse++ }) // with the queue locked
	q.turns(t, "a a a b a b c a")
	if q.mu.Lock(); sparse != 3 {
		t.Errorf("%d sparse requests, want 3", sparse)
	}
	q.mu.Unlock()
}

// perTurn counts the requests of each turn.
func perTurn(of map[admitted]int) map[uint64]int {
	turns := map[uint64]int{}
	for a, n := range of {
		turns[a.turn] += n
	}
	return turns
}

func TestAllGetThrough(t *testing.T) {
	t.Parallel()
	q, ctx := open(t, 1000), check.Context(t)
	var all sync.WaitGroup
	for i := range 500 {
		all.Go(func() {
			if err := errors.Join(q.Wait(ctx, string(rune('a'+i%7)), ""), q.WaitAgain(ctx, "b")); err != nil {
				t.Error(err)
			}
		})
	}
	check.Ended(t, &all, "all in the queue to get a place")
	if len(q.tenants)+len(q.ready) != 0 {
		t.Errorf("%d queues are left", len(q.tenants))
	}
}

func TestTooManyOfOneTenant(t *testing.T) {
	t.Parallel()
	q := open(t, 2)
	release := q.hold()
	ended := make(chan error)
	pass := func(ctx context.Context, tenant string) { go func() { ended <- q.Wait(ctx, tenant, "") }() }
	gone, leave := context.WithCancel(check.Context(t))
	pass(gone, "a")
	q.waitFor(t, 1)
	pass(check.Context(t), "a")
	q.waitFor(t, 2)
	if err := q.Wait(check.Context(t), "a", ""); !errors.Is(err, ErrFull) {
		t.Errorf("the third that waits is told %v", err)
	}
	pass(check.Context(t), "b")
	q.waitFor(t, 3)
	leave() // leaving makes room
	if err := check.Received(t, ended, "the end of a wait"); !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves is told %v", err)
	}
	pass(check.Context(t), "a")
	q.waitFor(t, 3)
	release()
	for range 3 {
		if err := check.Received(t, ended, "the end of a wait"); err != nil {
			t.Error(err)
		}
	}
}

// TestWhoLeavesIsCountedOnce: a request that has left its queue is no longer counted there. Its turn does not count it
// a second time, also if it leaves in that moment.
func TestWhoLeavesIsCountedOnce(t *testing.T) {
	t.Parallel()
	for name, inItsTurn := range map[string]bool{"before its turn": false, "in its turn": true} {
		q := open(t, 2)
		release := q.hold()
		ended := make(chan error)
		left := func() {
			t.Helper()
			if err := check.Received(t, ended, "the end of a wait"); !errors.Is(err, context.Canceled) {
				t.Errorf("who leaves %s is told %v", name, err)
			}
		}
		gone, leave := context.WithCancel(check.Context(t))
		for i, ctx := range []context.Context{gone, check.Context(t)} {
			go func() { ended <- q.Wait(ctx, "a", "") }()
			q.waitFor(t, i+1)
		}
		if !inItsTurn {
			leave()
			left()
		}
		q.mu.Lock()
		leave()
		if w := q.pop(); inItsTurn {
			w.admit(0)
		}
		q.mu.Unlock()
		if inItsTurn {
			left()
		}
		q.mu.Lock()
		waiting := q.tenants["a"].waiting
		q.mu.Unlock()
		if waiting != 1 {
			t.Errorf("one leaves %s: %d wait, not 1", name, waiting)
		}
		release()
		if err := check.Received(t, ended, "the end of a wait"); err != nil {
			t.Error(err)
		}
	}
}

// TestPlacesInTurn: requests from one address take neither the places nor all the turns of others of their tenant.
func TestPlacesInTurn(t *testing.T) {
	t.Parallel()
	q := open(t, 6)
	release := q.hold()
	type end struct {
		from string
		err  error
	}
	ended := make(chan end, 20)
	var order []string
	for i, from := range strings.Fields("x x x x x x y y y z") {
		go func() { ended <- end{from, q.Wait(check.Context(t), "?", from)} }()
		if q.waitFor(t, min(i+1, 6)); i >= 6 { // one has to go
			if e := check.Received(t, ended, "the end of a wait"); e.from != "x" || !errors.Is(e.err, ErrFull) {
				t.Errorf("when %s comes %s is told %v", from, e.from, e.err)
			}
		}
	}
	for _, from := range []string{"x", "y"} { // one has two requests, and the other three
		if err := q.Wait(check.Context(t), "?", from); !errors.Is(err, ErrFull) {
			t.Errorf("one more of %s, which has nearly as many as others: %v", from, err)
		}
	}
	q.mu.Lock()
	for len(q.ready) > 0 {
		from := q.ready[0].sources[0].addr
		if w := q.pop(); !w.left {
			order = append(order, from)
			w.admit(0)
		}
	}
	q.mu.Unlock()
	for range 6 {
		if e := check.Received(t, ended, "the end of a wait"); e.err != nil {
			t.Errorf("%s: %v", e.from, e.err)
		}
	}
	if got := strings.Join(order, ""); got != "xyzxyy" {
		t.Errorf("the order is %s", got)
	}
	release()
}
