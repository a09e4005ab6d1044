package idempotency

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/lib/fairshare"
)

// Options of a Keeper. The zero value is usable, and refuses every call.
type Options struct {
	Keys      [][]byte      // of seal.KeyBytes; the first encrypts, all decrypt; none: every call is refused
	TTL       time.Duration // how long answers are kept, since they were given; default 24 h
	MaxAnswer int           // the longest that is kept, in bytes; default 64 KiB
	MaxKeys   int           // that a tenant may have at once; default 10,000
	Calls     int           // calls with keys that are under way at once, of no tenant more than four times what is free; default 10,000
	Lease     time.Duration // after which the call of a replica that is not heard of is in doubt; default 15 s
	Poll      time.Duration // how often the store is asked for a call at another replica, should the news of its end be lost; default 1 s
}

func (o *Options) setDefaults() {
	o.TTL, o.Lease, o.Poll = cmp.Or(o.TTL, 24*time.Hour), cmp.Or(o.Lease, 15*time.Second), cmp.Or(o.Poll, time.Second)
	o.MaxAnswer, o.MaxKeys, o.Calls = cmp.Or(o.MaxAnswer, 64<<10), cmp.Or(o.MaxKeys, 10_000), cmp.Or(o.Calls, 10_000)
}

// Ended is how a call ended that was to be carried out.
type Ended uint8

// The ways. The zero value is the careful one.
const (
	InDoubt    Ended = iota // it may have been carried out
	Certain                 // it was carried out, or its backend has refused it: the answer holds for repeats
	NotStarted              // it provably was not: who repeats it has another try
)

// Run carries a call out and returns its answer, an error's too. ctx does not end when the caller
// leaves, but by the caller's deadline.
type Run func(ctx context.Context) (answer []byte, how Ended)

// Keeper is what one replica knows of calls with keys. It is safe for concurrent use.
type Keeper struct {
	store   Store
	opts    Options
	sealer  *aead.Sealer
	printer printer
	counted counters
	running sync.WaitGroup  // flights
	calls   *fairshare.Pool // that wait for one, by tenant
	closing chan struct{}

	mu      sync.Mutex
	flights map[string]*flight // by the id of their claim
	closed  bool
}

// New fails for keys that are none.
func New(store Store, o Options) (*Keeper, error) {
	o.setDefaults()
	sealer, err := aead.New(o.Keys)
	if err != nil {
		return nil, fmt.Errorf("idempotency: %w", err)
	}
	return &Keeper{store: store, opts: o, sealer: sealer, printer: newPrinter(o.Keys), closing: make(chan struct{}), flights: map[string]*flight{}, calls: fairshare.New("idempotent_calls", int64(o.Calls))}, nil
}

// Run follows the store until ctx ends. Without it the end of a call at another replica is seen up
// to Options.Poll later.
func (k *Keeper) Run(ctx context.Context) {
	k.store.Follow(ctx, k.wake, k.wakeAll)
}

// Close waits until nothing runs. What is carried out then has to end by itself.
func (k *Keeper) Close() {
	k.mu.Lock()
	if !k.closed {
		k.closed = true
		close(k.closing)
	}
	k.mu.Unlock()
	k.running.Wait()
}

// Do has a call carried out by run, or answers with what the first one with its key was
// answered, for which it waits while that runs. It may wait until ctx ends.
//
// A call that was not made is refused with IDEMPOTENCY_OFF without a key to encrypt with,
// IDEMPOTENCY_UNAVAILABLE, IDEMPOTENCY_KEYS_FULL and IDEMPOTENCY_KEY_REUSED; one that was, or
// may have been, with IDEMPOTENCY_OUTCOME_UNKNOWN and IDEMPOTENCY_ANSWER_TOO_LARGE.
func (k *Keeper) Do(ctx context.Context, r *Request, run Run) (answer []byte, repeat bool, refusal *call.Refusal) {
	answer, became, refusal := k.do(ctx, r, run)
	k.counted.calls[became].Add(1)
	return answer, became == replayed || became == joined, refusal
}

func (k *Keeper) do(ctx context.Context, r *Request, run Run) ([]byte, fate, *call.Refusal) {
	if !k.sealer.On() {
		return nil, away, refusedOff
	}
	for id := r.id(); ctx.Err() == nil; {
		f, mine, ok := k.join(ctx, id, r, run)
		if !ok {
			return nil, away, refusedBusy
		}
		answer, became, refusal := k.wait(ctx, f, mine, r)
		if k.leave(f, r); became != again {
			return answer, became, refusal
		}
	}
	return nil, left, refusedLeft
}

// wait waits for what a flight comes to, for one of those who are on it; mine: it carries out this
// one's call, if any.
func (k *Keeper) wait(ctx context.Context, f *flight, mine bool, r *Request) ([]byte, fate, *call.Refusal) {
	select {
	case <-f.begun:
	case <-ctx.Done():
		return nil, left, refusedLeft
	}
	if f.print != "" {
		switch same, known := k.printer.same(f.print, r); {
		case !known:
			return nil, away, refusedAway // it was kept with a key that is not here, or not yet
		case !same:
			return nil, reused, refusedReused
		}
	}
	late := replayed
	select {
	case <-f.over:
	default:
		late = joined
		k.counted.waiting.Add(1)
		defer k.counted.waiting.Add(-1)
		select {
		case <-f.over:
		case <-ctx.Done():
			return nil, left, refusedLeft
		}
	}
	switch {
	case mine && f.owner && f.state == None:
		return f.answer, notStarted, nil
	case mine && f.owner:
		return f.answer, first, nil
	}
	return f.told(r, late)
}

// told is what a repeat is told.
func (f *flight) told(r *Request, late fate) ([]byte, fate, *call.Refusal) {
	switch f.state {
	case Answered:
		return f.answer, late, nil
	case TooLarge:
		if f.owner {
			return f.answer, late, nil
		}
		return nil, tooLarge, refusedTooLarge
	case Unknown:
		return nil, unknown, refusedUnknown
	case Full:
		return nil, full, refusedFull
	case None:
		switch {
		case r.Only != nil:
			return nil, unkept, r.Only
		case !f.untold:
			return nil, again, nil
		}
	case Running:
		return nil, again, nil // everybody else had left
	}
	return nil, away, refusedAway
}
