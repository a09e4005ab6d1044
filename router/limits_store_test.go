package router_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
)

// Without waiting calls permits are granted from memory.
func TestLimitInSteadyState(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		board, concurrent := newBoard(), &concurrency{}
		r := newLimited(t, &replica{board: board, name: "1"}, concurrent, router.Limit{PerBackend: 10}, named(1)...)
		for range 100 {
			if refusal := r.call(router.PermitRequest{}, 5*time.Millisecond); refusal != nil {
				t.Fatal(refusal)
			}
		}
		before, _ := board.traffic()
		waits := r.fleet().Stats().Waits
		for range 10_000 {
			if refusal := r.call(router.PermitRequest{}, time.Millisecond); refusal != nil {
				t.Fatal(refusal)
			}
		}
		if s := r.fleet().Stats(); s.Waits != waits {
			t.Errorf("%d calls had to wait", s.Waits-waits)
		}
		if after, _ := board.traffic(); after-before > 15 { // one a second
			t.Errorf("%d exchanges in 10 s", after-before)
		}
		r.end()
	})
}

// A dead replica's permits are free for the others after a while.
func TestLimitOfADeadReplica(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		board, concurrent := newBoard(), &concurrency{}
		dying := &replica{board: board, name: "dying"}
		first := newLimited(t, dying, concurrent, router.Limit{PerBackend: 2}, named(1)...)
		second := newLimited(t, &replica{board: board, name: "other"}, concurrent, router.Limit{PerBackend: 2},
			named(1)...)
		first.hold(router.PermitRequest{})
		first.hold(router.PermitRequest{})
		dying.die()
		began := time.Now()
		for range 2 {
			second.hold(router.PermitRequest{})
		}
		if waited := time.Since(began); waited < 3*time.Second || waited > 5*time.Second+time.Second {
			t.Errorf("waited %v for what the dead replica had", waited)
		}
		first.end()
		second.end()
	})
}

// While the store is unavailable each replica uses the permits that it has, or its share. Afterwards the limit holds
// again.
func TestLimitWithoutStore(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		shared, all := newBoard(), &concurrency{}
		var replicas []*limited
		for i := range 3 {
			replicas = append(replicas, newLimited(t, &replica{board: shared, name: fmt.Sprint(i)}, all,
				router.Limit{PerBackend: 6, Queue: router.Queue{Wait: time.Hour}}, named(1)...))
		}
		flood := func() {
			var work sync.WaitGroup
			for _, r := range replicas {
				for range 30 {
					work.Go(func() {
						if refusal := r.call(router.PermitRequest{}, 100*time.Millisecond); refusal != nil {
							t.Error(refusal)
						}
					})
				}
			}
			work.Wait()
		}
		flood()
		if most := all.peak(); most != 6 {
			t.Errorf("%d calls at once", most)
		}
		shared.set(func(b *board) { b.unavailable = true })
		all.forget()
		flood()
		// The permits of each, at least two, of six.
		if most := all.peak(); most < 6 || most > 10 {
			t.Errorf("%d calls at once while the store is unavailable", most)
		}
		shared.set(func(b *board) { // the store returns empty
			b.unavailable, b.entries = false, map[string]map[string]*entry{}
		})
		flood()
		all.forget()
		flood()
		if most := all.peak(); most > 6 {
			t.Errorf("%d calls at once after the store came back", most)
		}
		for _, r := range replicas {
			r.end()
		}
	})
}

// No call waits long for a store that does not respond, and none waits if that is known.
func TestLimitKeepsNobodyWaitingForTheStore(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		is          func(*board)
		first, next time.Duration // that calls may wait
	}{
		"known to be unavailable": {func(b *board) { b.unavailable, b.told = true, true }, 0, 0},
		"unavailable":             {func(b *board) { b.unavailable = true }, 150 * time.Millisecond, 0},
		"slow":                    {func(b *board) { b.slow = 2 * time.Second }, 150 * time.Millisecond, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check.Bubble(t, func(t *testing.T) {
				b, concurrent := newBoard(), &concurrency{}
				b.set(test.is)
				r := newLimited(t, &replica{board: b, name: "1"}, concurrent, router.Limit{PerBackend: 7}, named(1)...)
				<-time.After(1500 * time.Millisecond) // for it to count its neighbours
				for i, longest := range []time.Duration{test.first, test.next} {
					var calls sync.WaitGroup
					for range 2 {
						calls.Go(func() {
							began := time.Now()
							if refusal := r.call(router.PermitRequest{}, 5*time.Second); refusal != nil ||
								time.Since(began)-5*time.Second > longest {
								t.Errorf("call %d: %v after %v", i, refusal, time.Since(began))
							}
						})
					}
					calls.Wait()
				}
				full := chanOf(r, router.PermitRequest{Backend: r.fleet().Backends[0]})
				if s := r.fleet().Stats(); s.Permits < 2 { // of three replicas
					t.Errorf("%+v", s)
				}
				(<-full).Claim.Done(router.Outcome{})
				r.end()
			})
		})
	}
}

// A replica that was frozen does not use permits that others got meanwhile.
func TestLimitOfAFrozenReplica(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		b, concurrent := newBoard(), &concurrency{}
		other := &replica{board: b, name: "other"}
		r := newLimited(t, &replica{board: b, name: "frozen"}, concurrent, router.Limit{PerBackend: 4}, named(1)...)
		for _, release := range []func(){
			r.hold(router.PermitRequest{}), r.hold(router.PermitRequest{}), r.hold(router.PermitRequest{}),
		} {
			defer release()
		}
		<-time.After(100 * time.Millisecond)
		b.set(func(b *board) { b.slow = 6 * time.Second }) // longer than places last
		<-time.After(6400 * time.Millisecond)
		b.set(func(b *board) { b.slow = 0 })
		if g, err := other.Exchange(t.Context(), "weather",
			[]router.Demand{{Addr: "a0:1", Limit: 4, Need: 4, Seq: 1}}); err != nil || g[0].Held != 4 {
			t.Fatalf("%+v, %v", g, err)
		}
		<-time.After(time.Second)
		if held := b.holders("a0:1"); held["frozen"] != 3 {
			t.Errorf("held %v, and three have calls", held)
		}
		r.end()
	})
}

// In a large fleet a call requests permits at a few backends, and idle backends cost nothing.
func TestLimitOfALargeFleet(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		b := newBoard()
		r := newLimited(t, &replica{board: b, name: "1"}, &concurrency{}, router.Limit{PerBackend: 1}, named(1000)...)
		if refusal := r.call(router.PermitRequest{}, time.Millisecond); refusal != nil {
			t.Error(refusal)
		}
		<-time.After(10 * time.Second)
		_, asked := b.traffic()
		if asked > 50 {
			t.Errorf("asked %d times for places", asked)
		}
		<-time.After(time.Minute)
		if _, after := b.traffic(); after > asked {
			t.Errorf("asked %d times for places while nobody calls", after-asked)
		}
		var calls sync.WaitGroup
		for range 100 {
			calls.Go(func() {
				if refusal := r.call(router.PermitRequest{}, time.Second); refusal != nil {
					t.Error(refusal)
				}
			})
		}
		began := time.Now()
		calls.Wait()
		if took := time.Since(began); took > 1100*time.Millisecond {
			t.Errorf("100 calls of one second at 1000 backends took %v", took)
		}
		r.end()
	})
}

// Permits are returned at once when their owner ends.
func TestLimitOfAReplicaThatEnds(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		board := newBoard()
		r := newLimited(t, &replica{board: board, name: "1"}, &concurrency{}, router.Limit{PerBackend: 2}, named(1)...)
		r.hold(router.PermitRequest{})()
		r.end()
		if held := board.holders("a0:1"); sum(held) != 0 {
			t.Errorf("%v", held)
		}
	})
}
