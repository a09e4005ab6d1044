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

// Done ends the turn; the next one begins. It returns at once and may be called again.
func (t *Turn) Done() { t.end.Do(func() { close(t.over) }) }

// Take waits for a turn until ctx ends. At most `most` tickets may wait for the engine, at all replicas together.
// The caller has to end the turn. The errors are ErrFull, ErrAway and that of ctx; after an error the ticket is
// not in the queue.
func (k *Keeper) Take(ctx context.Context, engine, tenant string, most int) (*Turn, error) {
	t := &Ticket{Engine: strings.Clone(engine), Tenant: strings.Clone(tenant), ID: rand.Text(), Lease: k.opts.Lease,
		Most: most}
	e := k.add(t.ID)
	if e == nil {
		return nil, ErrAway
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

// soon is the retry interval of an unavailable store.
const soon = 100 * time.Millisecond

// wait waits until a ticket has its turn.
func (k *Keeper) wait(ctx context.Context, t *Ticket, e *entry) error {
	patience := k.opts.Try
	for answered := time.Now(); ; {
		t.Wary = k.wary(t.Engine)
		// A step that has begun is completed, so that leaving comes after it.
		s, err := k.store.Wait(context.WithoutCancel(ctx), t)
		next := k.every()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && time.Since(answered) >= patience:
			return fmt.Errorf("%w: %w", ErrAway, err)
		case err != nil:
			next = min(next, soon)
		case s.State == Full:
			return ErrFull
		case s.State == Mine:
			k.know(t)
			return nil
		default:
			k.know(t)
			answered, patience, t.Seq = time.Now(), k.opts.Patience, s.Seq
			next = min(next, max(s.Left, firstWait)+time.Millisecond)
		}
		timer := time.NewTimer(next)
		select {
		case <-e.news:
		case <-timer.C:
		case <-ctx.Done():
		case <-k.closing:
			err = ErrAway
		}
		if timer.Stop(); err == ErrAway {
			return err
		}
	}
}

// hold keeps a turn until it ends.
func (k *Keeper) hold(t *Ticket, e *entry, turn *Turn) {
	defer k.leave(t, true)
	k.renew(e, turn.over, func() bool {
		_ = k.store.Hold(context.Background(), t) // the next renewal may succeed
		return true
	})
}

// renew calls again at each interval and after each notification, until over is closed or again returns false.
func (k *Keeper) renew(e *entry, over <-chan struct{}, again func() bool) {
	tick := time.NewTicker(k.every())
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-k.closing:
			return
		case <-e.news:
		case <-tick.C:
		}
		if !again() {
			return
		}
	}
}

// leave ends a ticket.
func (k *Keeper) leave(t *Ticket, held bool) {
	defer k.remove(t.ID)
	k.insist(func(ctx context.Context) error { return k.store.Leave(ctx, t, held) })
}
