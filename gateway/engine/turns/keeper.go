package turns

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// Errors of Take and Seize.
var (
	ErrFull = errors.New("as many wait for this engine as may")
	ErrHeld = errors.New("another has this engine's lease")
	ErrAway = errors.New("it cannot be found out whose turn it is")
)

// Options of a Keeper. The zero value works.
type Options struct {
	Lease    time.Duration // time after which turns, leases and tickets expire without renewal; default 15 s
	Try      time.Duration // how long a new ticket waits for an unavailable store; default 2 s
	Patience time.Duration // how long a waiting ticket waits for an unavailable store; default 30 s
}

// Keeper has the turns and leases of one replica. It is safe for concurrent use.
type Keeper struct {
	store   Store
	opts    Options
	running sync.WaitGroup
	closing chan struct{}

	mu       sync.Mutex
	entries  map[string]*entry // by id
	engines  map[string]int    // number of each engine's tickets in the store
	followed bool              // the change feed was connected before
	again    time.Time         // last reconnection of the change feed
	closed   bool
}

// entry is a ticket or a claim that the store knows.
type entry struct {
	news  chan struct{} // capacity 1: the store has to be queried
	known string        // engine of a ticket in the store; "": unconfirmed
}

// New makes a Keeper.
func New(store Store, o Options) *Keeper {
	o.Lease, o.Try, o.Patience = cmp.Or(o.Lease, 15*time.Second), cmp.Or(o.Try, 2*time.Second),
		cmp.Or(o.Patience, 30*time.Second)
	return &Keeper{store: store, opts: o, closing: make(chan struct{}), entries: map[string]*entry{},
		engines: map[string]int{}}
}

// Run follows the store's changes until ctx ends. Without Run, a ticket learns of its turn up to a third of
// Options.Lease late.
func (k *Keeper) Run(ctx context.Context) { k.store.Follow(ctx, k.told, k.connected) }

// Close releases everything, and waits until the store has recorded it, if it answers.
func (k *Keeper) Close() {
	k.mu.Lock()
	if !k.closed {
		k.closed = true
		close(k.closing)
	}
	k.mu.Unlock()
	k.running.Wait()
}

// add registers an id for notifications. It returns nil after Close.
func (k *Keeper) add(id string) *entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	e := &entry{news: make(chan struct{}, 1)}
	k.entries[id] = e
	k.running.Add(1)
	return e
}

// remove unregisters an id.
func (k *Keeper) remove(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	engine := k.entries[id].known
	delete(k.entries, id)
	if k.engines[engine]--; k.engines[engine] <= 0 {
		delete(k.engines, engine)
	}
	k.running.Done()
}

// know records that the store has a ticket.
func (k *Keeper) know(t *Ticket) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.entries[t.ID]; e.known == "" {
		e.known = t.Engine
		k.engines[t.Engine]++
	}
}

// wary reports whether a store without data of an engine must have lost it.
func (k *Keeper) wary(engine string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.engines[engine] > 0 || time.Since(k.again) < k.opts.Lease
}

func (k *Keeper) told(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.entries[id]; e != nil {
		e.ask()
	}
}

// connected makes all tickets and claims query and renew themselves in the store.
func (k *Keeper) connected() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.followed {
		k.again = time.Now()
	}
	k.followed = true
	for _, e := range k.entries {
		e.ask()
	}
}

func (e *entry) ask() {
	select {
	case e.news <- struct{}{}:
	default:
	}
}

// every is the interval of renewals.
func (k *Keeper) every() time.Duration { return max(k.opts.Lease/3, time.Millisecond) }

const (
	firstWait = 20 * time.Millisecond
	lastWait  = time.Second
)

// insist retries a release until it succeeds or the entry in the store has expired.
func (k *Keeper) insist(tell func(context.Context) error) {
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
