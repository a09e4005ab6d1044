package fairqueue

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func open(t *testing.T, most int) *Turnstile {
	t.Helper()
	turnstile, err := New(most)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(turnstile.Close)
	return turnstile
}

// hold keeps it from turning until it is let go.
func (t *Turnstile) hold() (letGo func()) {
	t.mu.Lock()
	told := t.told
	t.told = true // so nobody tells it
	t.mu.Unlock()
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.told = told
		t.tell()
	}
}

// await waits until so many do.
func (t *Turnstile) await(n int) {
	waiting := func() int {
		t.mu.Lock()
		defer t.mu.Unlock()
		n := 0
		for _, l := range t.of {
			n += l.many + len(l.again)
		}
		return n
	}
	for waiting() != n {
		runtime.Gosched()
	}
}

func TestTenantsInTurn(t *testing.T) {
	t.Parallel()
	ts := open(t, 100)
	letGo := ts.hold()
	var order strings.Builder
	var all sync.WaitGroup
	for i, who := range strings.Fields("a a a a a a b b c A A B") {
		all.Go(func() {
			var err error
			if tenant := strings.ToLower(who); tenant != who {
				err = ts.PassAgain(t.Context(), tenant)
			} else {
				err = ts.Pass(t.Context(), who, "")
			}
			if err != nil {
				t.Error(err)
			}
		})
		ts.await(i + 1)
	}
	ts.mu.Lock()
	for len(ts.lines) > 0 { // whom it would let through
		l := ts.lines[0]
		who := l.tenant
		if len(l.again) > 0 {
			who = strings.ToUpper(who)
		}
		order.WriteString(who)
		close(ts.next().through)
	}
	ts.mu.Unlock()
	all.Wait()
	if order.String() != "ABcAbabaaaaa" {
		t.Errorf("the order is %s", &order)
	}
	letGo()
}

func TestAllGetThrough(t *testing.T) {
	t.Parallel()
	ts := open(t, 1000)
	var all sync.WaitGroup
	for i := range 500 {
		all.Go(func() {
			if err := errors.Join(ts.Pass(t.Context(), string(rune('a'+i%7)), ""), ts.PassAgain(t.Context(), "b")); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(ts.of)+len(ts.lines) != 0 {
		t.Errorf("%d lines are left", len(ts.of))
	}
}

func TestTooManyOfOneTenant(t *testing.T) {
	t.Parallel()
	ts := open(t, 2)
	letGo := ts.hold()
	ended := make(chan error)
	pass := func(ctx context.Context, tenant string) { go func() { ended <- ts.Pass(ctx, tenant, "") }() }
	gone, leave := context.WithCancel(t.Context())
	pass(gone, "a")
	ts.await(1)
	pass(t.Context(), "a")
	ts.await(2)
	if err := ts.Pass(t.Context(), "a", ""); !errors.Is(err, ErrFull) {
		t.Errorf("the third that waits is told %v", err)
	}
	pass(t.Context(), "b")
	ts.await(3)
	leave() // who has gone makes room
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves is told %v", err)
	}
	pass(t.Context(), "a")
	ts.await(3)
	letGo()
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// Those that come from one place do not take the places of others of their tenant, nor all the turns.
func TestPlacesInTurn(t *testing.T) {
	t.Parallel()
	ts := open(t, 6)
	letGo := ts.hold()
	type end struct {
		from string
		err  error
	}
	ended := make(chan end, 20)
	var order []string
	for i, from := range strings.Fields("x x x x x x y y y z") {
		go func() { ended <- end{from, ts.Pass(t.Context(), "?", from)} }()
		if ts.await(min(i+1, 6)); i >= 6 { // one has to go
			if e := <-ended; e.from != "x" || !errors.Is(e.err, ErrFull) {
				t.Errorf("when %s comes %s is told %v", from, e.from, e.err)
			}
		}
	}
	if err := ts.Pass(t.Context(), "?", "y"); !errors.Is(err, ErrFull) {
		t.Errorf("one more of a place that has as many as others: %v", err)
	}
	ts.mu.Lock()
	for len(ts.lines) > 0 {
		from := ts.lines[0].fresh[0].from
		if w := ts.next(); !w.left {
			order = append(order, from)
			close(w.through)
		}
	}
	ts.mu.Unlock()
	for range 6 {
		if e := <-ended; e.err != nil {
			t.Errorf("%s: %v", e.from, e.err)
		}
	}
	if got := strings.Join(order, ""); got != "xyzxyy" {
		t.Errorf("the order is %s", got)
	}
	letGo()
}
