package turns

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/signal"
)

// Errors of Take and Acquire.
var (
	ErrFull        = errors.New("the queue of this engine is full")
	ErrLeaseTaken  = errors.New("the lease of this engine is held")
	ErrUnavailable = errors.New("the store of turns is unavailable")
)

// Options configures a Manager. The zero value is valid.
type Options struct {
	Lease          time.Duration // time after which turns, leases and tickets expire without renewal; default 15 s
	FirstTimeout   time.Duration // how long a new ticket waits for an unavailable store; default 2 s
	WaitingTimeout time.Duration // how long a waiting ticket waits for an unavailable store; default 30 s
}

// Manager manages the turns and leases of one replica. It is safe for concurrent use.
type Manager struct {
	store   Store
	opts    Options
	running sync.WaitGroup
	closing chan struct{}

	mu              sync.Mutex
	entries         map[string]*entry // by id
	engines         map[string]int    // number of each engine's tickets in the store
	connectedBefore bool              // the change feed was connected before
	reconnected     time.Time         // last reconnection of the change feed
	closed          bool
}

// entry is a ticket or a lease request in the store.
type entry struct {
	wake  chan struct{} // capacity 1: signals that the store must be queried
	known string        // engine of a ticket in the store; empty means unconfirmed
}

// New returns a Manager.
func New(store Store, o Options) *Manager {
	o.Lease, o.FirstTimeout, o.WaitingTimeout = cmp.Or(o.Lease, 15*time.Second), cmp.Or(o.FirstTimeout, 2*time.Second),
		cmp.Or(o.WaitingTimeout, 30*time.Second)
	return &Manager{store: store, opts: o, closing: make(chan struct{}), entries: map[string]*entry{},
		engines: map[string]int{}}
}

// Run watches the store's changes until ctx ends. Without Run, a ticket may learn of its turn up to a third of
// Options.Lease late.
func (k *Manager) Run(ctx context.Context) { k.store.Watch(ctx, k.notify, k.connected) }

// Close releases everything, and waits until the store has recorded it, if it responds.
func (k *Manager) Close() {
	k.mu.Lock()
	if !k.closed {
		k.closed = true
		close(k.closing)
	}
	k.mu.Unlock()
	k.running.Wait()
}

func (k *Manager) isClosed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.closed
}

// add registers an id for notifications. It returns nil after Close.
func (k *Manager) add(id string) *entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	e := &entry{wake: make(chan struct{}, 1)}
	k.entries[id] = e
	k.running.Add(1)
	return e
}

// remove unregisters an id.
func (k *Manager) remove(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	engine := k.entries[id].known
	delete(k.entries, id)
	if k.engines[engine]--; k.engines[engine] <= 0 {
		delete(k.engines, engine)
	}
	k.running.Done()
}

// confirm records that the store has a ticket.
func (k *Manager) confirm(t *Ticket) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.entries[t.ID]; e.known == "" {
		e.known = t.Engine
		k.engines[t.Engine]++
	}
}

// maybeLost reports whether a store without data of an engine must have lost it.
func (k *Manager) maybeLost(engine string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.engines[engine] > 0 || time.Since(k.reconnected) < k.opts.Lease
}

func (k *Manager) notify(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.entries[id]; e != nil {
		e.ask()
	}
}

// connected makes all tickets and lease requests query and renew themselves in the store.
func (k *Manager) connected() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.connectedBefore {
		k.reconnected = time.Now()
	}
	k.connectedBefore = true
	for _, e := range k.entries {
		e.ask()
	}
}

func (e *entry) ask() { signal.Wake(e.wake) }

// renewInterval returns the interval of renewals.
func (k *Manager) renewInterval() time.Duration { return max(k.opts.Lease/3, time.Millisecond) }

const (
	firstWait = 20 * time.Millisecond
	lastWait  = time.Second
)

// retryUntilExpired retries a release until it succeeds or the entry in the store has expired.
func (k *Manager) retryUntilExpired(tell func(context.Context) error) {
	wait := firstWait
	for until := time.Now().Add(k.opts.Lease); tell(context.Background()) != nil &&
		time.Now().Before(until); wait = min(2*wait, lastWait) {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-k.closing:
			t.Stop()
			_ = tell(context.Background()) // the last try
			return
		}
	}
}
