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
	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Options of a Keeper. With the zero value every call is refused.
type Options struct {
	Keys      [][]byte // of aead.KeyBytes; the first one encrypts, all decrypt; none: every call is refused
	MaxAnswer int      // bytes of the longest stored response; default 64 KiB
	MaxKeys   int      // of one tenant; default 10,000
	// Calls bounds the calls with keys in flight; default 10,000. No tenant has more than four times the
	// number that is free.
	Calls int
	Lease time.Duration // after which an unrenewed claim's outcome is unknown; default 15 s
	// Poll is the interval of queries for a call at another replica, in case the notification is lost;
	// default 1 s.
	Poll time.Duration

	// Lifetime of a stored response, until its key can be reused. A response of more than 64 KiB is not stored, and a
	// repeated call gets an error. A tenant may have 10,000 keys. Without secret_file calls with idempotency keys are
	// rejected, unless Redis is embedded.
	TTL time.Duration `yaml:"ttl" min:"1s" max:"720h" default:"24h"`
}

func (o *Options) setDefaults() {
	strictyaml.Fill(o)
	o.Lease, o.Poll = cmp.Or(o.Lease, 15*time.Second), cmp.Or(o.Poll, time.Second)
	o.MaxAnswer, o.MaxKeys, o.Calls = cmp.Or(o.MaxAnswer, 64<<10), cmp.Or(o.MaxKeys, 10_000), cmp.Or(o.Calls, 10_000)
}

// Outcome describes whether a call was executed.
type Outcome uint8

// The values of Ended. The zero value is the safe one.
const (
	InDoubt    Outcome = iota // it may have been executed
	Executed                  // it was executed, or its backend has refused it: the response is stored
	NotStarted                // it provably was not: a repeat is executed
)

// Run executes a call and returns its response, also that of an error. ctx ends at the caller's deadline, but
// not when the caller leaves.
type Run func(ctx context.Context) (answer []byte, how Outcome)

// Service handles the calls with keys of one replica. It is safe for concurrent use.
type Service struct {
	store   Store
	opts    Options
	sealer  *aead.Sealer
	printer fingerprinter
	counted counters
	running sync.WaitGroup  // flights
	calls   *fairshare.Pool // that wait for a flight, by tenant
	closing chan struct{}

	mu      sync.Mutex
	flights map[string]*flight // by claim id
	closed  bool
}

// New returns a Keeper, or an error for malformed keys.
func New(store Store, o Options) (*Service, error) {
	o.setDefaults()
	sealer, err := aead.New(o.Keys)
	if err != nil {
		return nil, fmt.Errorf("idempotency: %w", err)
	}
	return &Service{
		store: store, opts: o, sealer: sealer, printer: newFingerprinter(o.Keys), closing: make(chan struct{}),
		flights: map[string]*flight{}, calls: fairshare.New("idempotent_calls", int64(o.Calls)),
	}, nil
}

// Run watches the store until ctx ends. Without it the end of a call at another replica is noticed up to
// Options.Poll later.
func (k *Service) Run(ctx context.Context) {
	k.store.Watch(ctx, k.notify, k.notifyAll)
}

// Close waits until all calls have ended. It does not cancel calls.
func (k *Service) Close() {
	k.mu.Lock()
	if !k.closed {
		k.closed = true
		close(k.closing)
	}
	k.mu.Unlock()
	k.running.Wait()
}

// Do executes a call with run, or returns the stored response of the first call with its key. While that one
// runs, Do waits for it, until ctx ends.
//
// A call that was not executed is refused with IDEMPOTENCY_OFF without an encryption key,
// IDEMPOTENCY_UNAVAILABLE, IDEMPOTENCY_KEYS_FULL or IDEMPOTENCY_KEY_REUSED. One that was or may have been
// executed is refused with IDEMPOTENCY_OUTCOME_UNKNOWN or IDEMPOTENCY_ANSWER_TOO_LARGE.
func (k *Service) Do(ctx context.Context, r *Request, run Run) (answer []byte, repeat bool, refusal *call.Refusal) {
	answer, became, refusal := k.do(ctx, r, run)
	k.counted.calls[became].Add(1)
	return answer, became == replayed || became == joined, refusal
}

func (k *Service) do(ctx context.Context, r *Request, run Run) ([]byte, result, *call.Refusal) {
	if !k.sealer.On() {
		return nil, unavailable, refusedOff
	}
	for id := r.id(); ctx.Err() == nil; {
		f, mine, ok := k.join(ctx, id, r, run)
		if !ok {
			return nil, unavailable, refusedBusy
		}
		answer, became, refusal := k.wait(ctx, f, mine, r)
		if k.leave(f, r); became != retry {
			return answer, became, refusal
		}
	}
	return nil, callerLeft, refusedLeft
}

// wait waits for the outcome of a flight. With mine, the flight executes this call, if any.
func (k *Service) wait(ctx context.Context, f *flight, mine bool, r *Request) ([]byte, result, *call.Refusal) {
	select {
	case <-f.started:
	case <-ctx.Done():
		return nil, callerLeft, refusedLeft
	}
	if f.fingerprint != "" {
		switch same, known := k.printer.same(f.fingerprint, r); {
		case !known:
			return nil, unavailable, refusedUnavailable // it was sealed with a key that this replica lacks
		case !same:
			return nil, reused, refusedReused
		}
	}
	late := replayed
	select {
	case <-f.done:
	default:
		late = joined
		k.counted.waiting.Add(1)
		defer k.counted.waiting.Add(-1)
		select {
		case <-f.done:
		case <-ctx.Done():
			return nil, callerLeft, refusedLeft
		}
	}
	switch {
	case mine && f.owner && f.state == None:
		return f.answer, notStarted, nil
	case mine && f.owner:
		return f.answer, executed, nil
	}
	return f.result(r, late)
}

// result returns the outcome for a repeat.
func (f *flight) result(r *Request, late result) ([]byte, result, *call.Refusal) {
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
			return nil, notExecuted, r.Only
		case !f.unsaved:
			return nil, retry, nil
		}
	case Running:
		return nil, retry, nil // all other callers had left
	}
	return nil, unavailable, refusedUnavailable
}
