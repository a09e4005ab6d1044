package turns

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// Turn is exclusive access to an engine.
type Turn struct {
	end  sync.Once
	over chan struct{}
}

// Done ends the turn, and the next one starts. It returns at once and may be called repeatedly.
func (t *Turn) Done() { t.end.Do(func() { close(t.over) }) }

// Take waits for a turn until ctx ends. At `most` tickets may wait for the engine, at all replicas together. The
// caller must end the turn. The errors are ErrFull, ErrUnavailable and that of ctx; after an error the ticket is not
// in the queue.
func (k *Manager) Take(ctx context.Context, engine, tenant string, most int) (*Turn, error) {
	t := &Ticket{Engine: strings.Clone(engine), Tenant: strings.Clone(tenant), ID: rand.Text(), Lease: k.opts.Lease,
		MaxWaiting: most}
	e := k.add(t.ID)
	if e == nil {
		return nil, ErrUnavailable
	}
	switch err := k.wait(ctx, t, e); err {
	case nil:
		turn := &Turn{over: make(chan struct{})}
		go recovery.Round("engine turn", func() { k.hold(t, e, turn) })
		return turn, nil
	case ErrFull:
		k.remove(t.ID)
		return nil, err
	default:
		go recovery.Round("engine turn", func() { k.leave(t, false) })
		return nil, err
	}
}

// storeRetry is the retry interval of an unavailable store.
const storeRetry = 100 * time.Millisecond

// wait waits until a ticket has its turn.
func (k *Manager) wait(ctx context.Context, t *Ticket, e *entry) error {
	timeout := k.opts.FirstTimeout
	for answered := time.Now(); ; {
		t.MaybeLost = k.maybeLost(t.Engine)
		// A started step is completed, so that leaving comes after it.
		s, err := k.store.Wait(context.WithoutCancel(ctx), t)
		next := k.renewInterval()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case k.isClosed(): // a turn that Close itself has freed is not taken
			return ErrUnavailable
		case err != nil && time.Since(answered) >= timeout:
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		case err != nil:
			next = min(next, storeRetry)
		case s.State == Full:
			return ErrFull
		case s.State == Granted:
			k.confirm(t)
			return nil
		default:
			k.confirm(t)
			answered, timeout, t.Seq = time.Now(), k.opts.WaitingTimeout, s.Seq
			next = min(next, max(s.Left, firstWait)+time.Millisecond)
		}
		timer := time.NewTimer(next)
		select {
		case <-e.wake:
		case <-timer.C:
		case <-ctx.Done():
		case <-k.closing:
		}
		if timer.Stop(); k.isClosed() {
			return ErrUnavailable
		}
	}
}

// hold keeps a turn until it ends.
func (k *Manager) hold(t *Ticket, e *entry, turn *Turn) {
	defer k.leave(t, true)
	k.renew(e, turn.over, func() bool {
		_ = k.store.Hold(context.Background(), t) // the next renewal may succeed
		return true
	})
}

// renew calls step at each interval and after each notification, until over is closed or step returns false.
func (k *Manager) renew(e *entry, over <-chan struct{}, step func() bool) {
	tick := time.NewTicker(k.renewInterval())
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-k.closing:
			return
		case <-e.wake:
		case <-tick.C:
		}
		if !step() {
			return
		}
	}
}

// leave ends a ticket.
func (k *Manager) leave(t *Ticket, held bool) {
	defer k.remove(t.ID)
	k.retryUntilExpired(func(ctx context.Context) error { return k.store.Leave(ctx, t, held) })
}
