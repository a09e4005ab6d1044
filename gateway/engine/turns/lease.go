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

// Lease is an exclusive lease of an engine.
type Lease struct {
	end  sync.Once
	over chan struct{}
	lost chan struct{}
	gone chan struct{} // closed when the store has released it
}

// Lost returns a channel that is closed when another request has taken the lease over. While the store is unavailable,
// it stays open.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Release releases the lease. It returns at once and may be called repeatedly, also after Lost.
func (l *Lease) Release() { l.end.Do(func() { close(l.over) }) }

// closeTimeout is the maximum wait of Close for the store.
const closeTimeout = time.Second

// Close releases the lease, and waits until the store has recorded it, so that a holder that returns at once finds it
// free.
func (l *Lease) Close() {
	l.Release()
	select {
	case <-l.gone:
	case <-time.After(closeTimeout):
	}
}

// Acquire acquires the lease of an engine, which the caller must release. It does not wait: if the lease is held, the
// error is ErrLeaseTaken, unless takeover is true. Other errors are ErrUnavailable and that of ctx. who is stored with
// the lease, for people who inspect the store.
func (k *Manager) Acquire(ctx context.Context, engine, holder string, takeover bool) (*Lease, error) {
	c := &LeaseRequest{Engine: strings.Clone(engine), ID: rand.Text(), Who: strings.Clone(holder), Lease: k.opts.Lease,
		Takeover: takeover}
	e := k.add(c.ID)
	if e == nil {
		return nil, ErrUnavailable
	}
	mine, err := k.store.Acquire(context.WithoutCancel(ctx), c)
	switch {
	case err == nil && !mine:
		k.remove(c.ID)
		return nil, ErrLeaseTaken
	case err == nil && ctx.Err() == nil:
		c.Takeover = false // renewals must not take over
		l := &Lease{over: make(chan struct{}), lost: make(chan struct{}), gone: make(chan struct{})}
		go recovery.Round("engine lease", func() { k.keep(c, e, l) })
		return l, nil
	}
	go recovery.Round("engine lease", func() { k.releaseLease(c) })
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
}

// keep renews a lease until it ends.
func (k *Manager) keep(c *LeaseRequest, e *entry, l *Lease) {
	defer close(l.gone)
	defer k.releaseLease(c)
	k.renew(e, l.over, func() bool {
		mine, err := k.store.Acquire(context.Background(), c)
		if err != nil || mine {
			return true
		}
		close(l.lost)
		return false
	})
}

// releaseLease releases a request's lease.
func (k *Manager) releaseLease(c *LeaseRequest) {
	defer k.remove(c.ID)
	k.retryUntilExpired(func(ctx context.Context) error { return k.store.Release(ctx, c) })
}
