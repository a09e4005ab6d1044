package turns_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/gateway/engine/turns"
	"github.com/capgate/capgate/internal/testkit/check"
)

func take(t *testing.T, k *turns.Manager) *turns.Turn {
	t.Helper()
	turn, err := k.Take(check.Context(t), "engine-1", "acme", 100)
	check.Must(t, err)
	return turn
}

// later takes a turn meanwhile.
func later(ctx context.Context, k *turns.Manager) <-chan error {
	got := make(chan error, 1)
	go func() {
		turn, err := k.Take(ctx, "engine-1", "acme", 100)
		if err == nil {
			turn.Done()
		}
		got <- err
	}()
	return got
}

func TestTurns(t *testing.T) {
	t.Parallel()
	m := newMemory()
	k := manager(t, m, turns.Options{Lease: time.Hour})
	first := take(t, k)
	m.expect(t, "wait")
	second := later(t.Context(), k)
	m.expect(t, "wait")
	if _, err := k.Take(check.Context(t), "engine-1", "acme", 1); err != turns.ErrFull {
		t.Errorf("one too many: %v", err)
	}
	first.Done()
	first.Done()
	if err := check.Received(t, second, "the second's turn"); err != nil {
		t.Error(err)
	}
	m.expect(t, "leave")
	m.expect(t, "leave")

	third := take(t, k)
	m.expect(t, "wait")
	ctx, cancel := context.WithCancel(t.Context())
	leaves := later(ctx, k)
	m.expect(t, "wait")
	cancel()
	if err := check.Received(t, leaves, "the end of the wait of who leaves"); err != context.Canceled {
		t.Errorf("who leaves: %v", err)
	}
	m.expect(t, "leave")
	third.Done()
	if _, err := k.Take(ctx, "engine-1", "acme", 100); err != context.Canceled {
		t.Errorf("who has left before: %v", err)
	}
}

// TestTheStoreIsAway: new tickets are rejected, waiting tickets keep waiting, and the holder keeps its turn.
// Releases are recorded when the store is back.
func TestTheStoreIsAway(t *testing.T) {
	t.Parallel()
	m := newMemory()
	k := manager(t, m, turns.Options{Lease: time.Hour, FirstTimeout: time.Nanosecond})
	first := take(t, k)
	m.expect(t, "wait")
	if m.set(func() {}); m.maybeLost {
		t.Error("wary of a new store")
	}
	second := later(t.Context(), k)
	m.expect(t, "wait")
	m.set(func() { m.away = true })
	if _, err := k.Take(check.Context(t), "engine-1", "acme", 100); !errors.Is(err, turns.ErrUnavailable) ||
		!errors.Is(err, errGone) {
		t.Errorf("who comes: %v", err)
	}
	m.set(func() { m.reconnected() })
	m.expect(t, "hold")
	first.Done()
	m.expect(t, "leave")
	m.set(func() { m.away = false })
	if err := check.Received(t, second, "the second's turn"); err != nil {
		t.Error(err)
	}
	take(t, k).Done()
	m.set(func() {
		if !m.maybeLost {
			t.Error("not wary of a store that has come back")
		}
	})
}

// TestPatience: with an unavailable store, new tickets and waiting tickets give up after their timeouts.
func TestPatience(t *testing.T) {
	t.Parallel()
	m := newMemory()
	m.away = true
	k := turns.New(m, turns.Options{Lease: time.Hour, FirstTimeout: time.Hour})
	tries := later(t.Context(), k)
	m.expect(t, "wait")
	m.expect(t, "wait")
	m.set(func() { m.away = false })
	if err := check.Received(t, tries, "the try"); err != nil {
		t.Errorf("who tries: %v", err)
	}
	k.Close()

	k = turns.New(m, turns.Options{Lease: time.Nanosecond, FirstTimeout: time.Hour, WaitingTimeout: time.Nanosecond})
	first := take(t, k)
	waits := later(t.Context(), k)
	m.expect(t, "wait")
	m.expect(t, "wait")
	for joined := false; !joined; m.expect(t, "wait") {
		m.set(func() { joined = len(m.line) > 1 })
	}
	m.set(func() { m.away = true })
	if err := check.Received(t, waits, "the end of the wait"); !errors.Is(err, turns.ErrUnavailable) {
		t.Errorf("who waited: %v", err)
	}
	first.Done()
	k.Close()
}

func TestLeases(t *testing.T) {
	t.Parallel()
	m := newMemory()
	k := manager(t, m, turns.Options{Lease: time.Hour})
	first, err := k.Acquire(t.Context(), "engine-1", "ann", false)
	check.Must(t, err)
	if _, err := k.Acquire(t.Context(), "engine-1", "bob", false); err != turns.ErrLeaseTaken {
		t.Errorf("another: %v", err)
	}
	second, err := k.Acquire(t.Context(), "engine-1", "bob", true)
	check.Must(t, err)
	check.Received(t, first.Lost(), "the first to lose its lease")
	first.Release()
	m.set(func() { m.away = true })
	m.set(func() { m.reconnected() })
	m.expect(t, "yield")
	if _, err := k.Acquire(t.Context(), "engine-1", "ann", true); !errors.Is(err, turns.ErrUnavailable) {
		t.Errorf("while the store is unavailable: %v", err)
	}
	select {
	case <-second.Lost():
		t.Error("lost to nobody")
	default:
	}
	m.set(func() { m.away = false })
	second.Release()
	second.Release()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := k.Acquire(gone, "engine-1", "bob", true); err != context.Canceled {
		t.Errorf("who has left: %v", err)
	}
	check.Until(t, "the lease to be free", func() (bool, string) {
		_, err := k.Acquire(t.Context(), "engine-1", "ann", false)
		if err != nil && err != turns.ErrLeaseTaken {
			t.Fatal(err)
		}
		return err == nil, fmt.Sprint(err)
	})
}

// TestClose: Close releases everything.
func TestClose(t *testing.T) {
	t.Parallel()
	m := newMemory()
	k := manager(t, m, turns.Options{Lease: time.Hour})
	take(t, k)
	m.expect(t, "wait")
	if _, err := k.Acquire(t.Context(), "engine-1", "ann", false); err != nil {
		t.Fatal(err)
	}
	waits := later(t.Context(), k)
	m.expect(t, "wait")
	k.Close()
	if err := check.Received(t, waits, "the end of the wait"); err != turns.ErrUnavailable {
		t.Errorf("who waits: %v", err)
	}
	m.set(func() {
		if len(m.line) > 0 || m.agent != "" {
			t.Errorf("left: %v, %q", m.line, m.agent)
		}
	})
	if _, err := k.Take(check.Context(t), "engine-1", "acme", 100); err != turns.ErrUnavailable {
		t.Errorf("a turn afterwards: %v", err)
	}
	if _, err := k.Acquire(t.Context(), "engine-1", "ann", true); err != turns.ErrUnavailable {
		t.Errorf("a lease afterwards: %v", err)
	}
}

// TestBelievingAStore: a store without an engine's data has lost it while tickets of that engine are here, and only
// then.
func TestBelievingAStore(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m := newMemory()
		k := manager(t, m, turns.Options{Lease: time.Hour})
		doubts := func() (is bool) { m.set(func() { is = m.maybeLost }); return is }
		first := take(t, k)
		if doubts() {
			t.Error("the first ticket doubts the store")
		}
		second := later(t.Context(), k)
		synctest.Wait()
		if !doubts() {
			t.Error("the second ticket does not doubt the store, which should have the first one")
		}
		first.Done()
		if err := <-second; err != nil {
			t.Error(err)
		}
		synctest.Wait()
		take(t, k).Done()
		if doubts() {
			t.Error("a ticket doubts the store after all others have left")
		}
	})
}

// TestCloseAfterAnOutage: Close sends missed updates to a store that is available again, without waiting for the next
// attempt.
func TestCloseAfterAnOutage(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m := newMemory()
		k := manager(t, m, turns.Options{Lease: time.Hour})
		turn := take(t, k)
		m.set(func() { m.away = true })
		turn.Done()
		<-time.After(10 * time.Second) // of the bubble's clock
		m.set(func() { m.away = false })
		k.Close()
		m.set(func() {
			if len(m.line) > 0 {
				t.Errorf("the store still has %v", m.line)
			}
		})
	})
}

// TestTakeovers: a lease that took over another one is lost to the next that does so.
func TestTakeovers(t *testing.T) {
	t.Parallel()
	k := manager(t, newMemory(), turns.Options{Lease: time.Hour})
	var all []*turns.Lease
	for _, who := range []string{"ann", "bob", "carl"} {
		lease, err := k.Acquire(t.Context(), "engine-1", who, true)
		check.Must(t, err)
		all = append(all, lease)
	}
	check.Received(t, all[0].Lost(), "the first to lose its lease")
	check.Received(t, all[1].Lost(), "the second to lose its lease")
	select {
	case <-all[2].Lost():
		t.Error("the last has lost its lease")
	default:
	}
}
