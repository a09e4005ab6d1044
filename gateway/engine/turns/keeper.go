package turns

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"
)

// What keeps somebody from a turn or a lease.
var (
	ErrFull = errors.New("as many wait for this engine as may")
	ErrHeld = errors.New("another has this engine's lease")
	ErrAway = errors.New("it cannot be found out whose turn it is")
)

// Options of a Keeper. The zero value works.
type Options struct {
	Lease    time.Duration // after which a turn, a lease or a place in line is lost whose replica is not heard of; default 15 s
	Try      time.Duration // how long who comes waits for a store that is away; default 2 s
	Patience time.Duration // how long who waits already does; default 30 s
}

// Keeper has the turns and leases of one replica. It is safe for concurrent use.
type Keeper struct {
	store   Store
	opts    Options
	running sync.WaitGroup
	closing chan struct{}

	mu       sync.Mutex
	entries  map[string]*entry // by id
	engines  map[string]int    // how many tickets of each the store has answered for
	followed bool              // the store was, at some time
	again    time.Time         // when it was found again last
	closed   bool
}

// entry is a ticket or a claim that the store knows.
type entry struct {
	news  chan struct{} // has room for one: the store should be asked
	known string        // the engine of a ticket that the store has answered for
}

// New makes a Keeper.
func New(store Store, o Options) *Keeper {
	o.Lease, o.Try, o.Patience = cmp.Or(o.Lease, 15*time.Second), cmp.Or(o.Try, 2*time.Second), cmp.Or(o.Patience, 30*time.Second)
	return &Keeper{store: store, opts: o, closing: make(chan struct{}), entries: map[string]*entry{}, engines: map[string]int{}}
}

// Run follows the store until ctx ends. Without it who waits learns up to a third of Options.Lease
// later that its turn has come.
func (k *Keeper) Run(ctx context.Context) { k.store.Follow(ctx, k.told, k.connected) }

// Close gives everything back and waits until the store knows, if it answers.
func (k *Keeper) Close() {
	k.mu.Lock()
	if !k.closed {
		k.closed = true
		close(k.closing)
	}
	k.mu.Unlock()
	k.running.Wait()
}

// add has news of an id handed on. It is nil after Close.
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

// remove ends what add began.
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

// know remembers that the store has a ticket.
func (k *Keeper) know(t *Ticket) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if e := k.entries[t.ID]; e.known == "" {
		e.known = t.Engine
		k.engines[t.Engine]++
	}
}

// wary says whether the store, if it knows nothing of an engine, has lost it.
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

// connected lets everybody ask, and say what they have.
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

// every is how often who has or waits for something says so.
func (k *Keeper) every() time.Duration { return max(k.opts.Lease/3, time.Millisecond) }

const (
	firstWait = 20 * time.Millisecond
	lastWait  = time.Second
)

// insist tries to tell the store that something is over, for so long as it would believe otherwise.
func (k *Keeper) insist(tell func(context.Context) error) {
	wait := firstWait
	for until := time.Now().Add(k.opts.Lease); tell(context.Background()) != nil && time.Now().Before(until); wait = min(2*wait, lastWait) {
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
