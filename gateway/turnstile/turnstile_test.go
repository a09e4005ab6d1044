package turnstile

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func open(t *testing.T, places, most int) *Turnstile {
	t.Helper()
	turnstile, err := New(places, most)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(turnstile.Close)
	return turnstile
}

// waiting is how many wait now.
func (t *Turnstile) waiting() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.of {
		n += l.waiting
	}
	return n + len(t.back)
}

func (t *Turnstile) await(n int) {
	for t.waiting() != n {
		runtime.Gosched()
	}
}

// enter has one wait, and says when it has a place.
func enter(ctx context.Context, t *Turnstile, tenant string, say func(*Place, error)) {
	n := t.waiting()
	go func() { say(t.Enter(ctx, tenant)) }()
	t.await(n + 1)
}

func TestTenantsInTurn(t *testing.T) {
	t.Parallel()
	ts := open(t, 1, 100)
	p, err := ts.Enter(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	order := make(chan string)
	one := func(tenant string) {
		enter(t.Context(), ts, tenant, func(p *Place, err error) {
			if err != nil {
				t.Error(err)
			}
			order <- tenant
			p.Leave()
		})
	}
	for _, tenant := range strings.Fields("a a a a a a b b c") {
		one(tenant)
	}
	p.Leave()
	p.Leave() // changes nothing
	var got strings.Builder
	for range 9 {
		got.WriteString(<-order)
	}
	if got.String() != "abcabaaaa" {
		t.Errorf("they began in the order %s", &got)
	}
}

func TestPlacesAreNotExceeded(t *testing.T) {
	t.Parallel()
	const places = 3
	ts := open(t, places, 1000)
	var mu sync.Mutex
	var inside, most int
	var all sync.WaitGroup
	for range 500 {
		all.Go(func() {
			p, err := ts.Enter(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			count := func(n int) {
				mu.Lock()
				defer mu.Unlock()
				inside += n
				most = max(most, inside)
			}
			count(1)
			count(-1)
			if err := p.Pause(t.Context(), runtime.Gosched); err != nil {
				t.Error(err)
			}
			count(1)
			count(-1)
			p.Leave()
		})
	}
	all.Wait()
	if most > places || ts.free != places || ts.waiting() != 0 || len(ts.of) != 0 {
		t.Errorf("%d were inside at once; left are %d places, %d waiting", most, ts.free, ts.waiting())
	}
}

func TestTooManyOfOneTenant(t *testing.T) {
	t.Parallel()
	ts := open(t, 1, 2)
	p, err := ts.Enter(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 3)
	say := func(p *Place, err error) {
		if err == nil {
			p.Leave()
		}
		ended <- err
	}
	ctx, leave := context.WithCancel(t.Context())
	enter(ctx, ts, "a", say)
	enter(t.Context(), ts, "a", say)
	if _, err := ts.Enter(t.Context(), "a"); !errors.Is(err, ErrFull) {
		t.Errorf("the third that waits is told %v", err)
	}
	enter(t.Context(), ts, "b", say)
	leave() // who has gone makes room
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("who leaves is told %v", err)
	}
	enter(t.Context(), ts, "a", say)
	p.Leave()
	for range 3 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func TestWhoComesBackGoesFirst(t *testing.T) {
	t.Parallel()
	ts := open(t, 1, 10)
	p, err := ts.Enter(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	body, order := make(chan struct{}), make(chan string, 2)
	paused := make(chan struct{})
	go func() {
		err := p.Pause(t.Context(), func() { close(paused); <-body })
		if err != nil {
			t.Error(err)
		}
		order <- "back"
		p.Leave()
	}()
	<-paused
	q, err := ts.Enter(t.Context(), "b") // nobody waits for a body
	if err != nil {
		t.Fatal(err)
	}
	enter(t.Context(), ts, "b", func(p *Place, err error) {
		if err != nil {
			t.Error(err)
		}
		order <- "new"
		p.Leave()
	})
	close(body)
	ts.await(2)
	q.Leave()
	if first, second := <-order, <-order; first != "back" || second != "new" {
		t.Errorf("%s, then %s", first, second)
	}
}

func TestLeftWhilePaused(t *testing.T) {
	t.Parallel()
	ts := open(t, 1, 10)
	p, err := ts.Enter(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Pause(t.Context(), p.Leave); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	q, err := ts.Enter(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	in := make(chan *Place, 1)
	err = q.Pause(ctx, func() {
		p, err := ts.Enter(t.Context(), "b")
		if err != nil {
			t.Error(err)
		}
		in <- p
		cancel()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("who cannot come back is told %v", err)
	}
	(<-in).Leave()
	q.Leave()
	if ts.free != 1 {
		t.Errorf("%d places are free", ts.free)
	}
}
