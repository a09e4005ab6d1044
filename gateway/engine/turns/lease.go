package turns

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// Lease is what one has of an engine, and nobody else.
type Lease struct {
	end  sync.Once
	over chan struct{}
	lost chan struct{}
}

// Lost is closed when another took the lease over. It stays open while nobody can tell.
func (l *Lease) Lost() <-chan struct{} { return l.lost }

// Release gives the lease back. It returns at once and may be called again, also after Lost.
func (l *Lease) Release() { l.end.Do(func() { close(l.over) }) }

// Seize gets the lease of an engine, which who gets it must release. It does not wait: where another
// has it the error is ErrHeld, unless it is to be taken over. The other errors are ErrAway and
// that of ctx. who is kept with it for people who look into the store.
func (k *Keeper) Seize(ctx context.Context, engine, who string, takeover bool) (*Lease, error) {
	c := &Claim{Engine: strings.Clone(engine), ID: rand.Text(), Who: strings.Clone(who), Lease: k.opts.Lease, Takeover: takeover}
	e := k.add(c.ID)
	if e == nil {
		return nil, ErrAway
	}
	mine, err := k.store.Seize(context.WithoutCancel(ctx), c)
	switch {
	case err == nil && !mine:
		k.remove(c.ID)
		return nil, ErrHeld
	case err == nil && ctx.Err() == nil:
		c.Takeover = false // from now on it is only kept
		l := &Lease{over: make(chan struct{}), lost: make(chan struct{})}
		go recovery.Round("engine lease", func() { k.keep(c, e, l) })
		return l, nil
	}
	go recovery.Round("engine lease", func() { k.yield(c) })
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, fmt.Errorf("%w: %w", ErrAway, err)
}

// keep keeps a lease until it ends.
func (k *Keeper) keep(c *Claim, e *entry, l *Lease) {
	defer k.yield(c)
	k.renew(e, l.over, func() bool {
		mine, err := k.store.Seize(context.Background(), c)
		if err != nil || mine {
			return true
		}
		close(l.lost)
		return false
	})
}

// yield ends a claim.
func (k *Keeper) yield(c *Claim) {
	defer k.remove(c.ID)
	k.insist(func(ctx context.Context) error { return k.store.Yield(ctx, c) })
}
