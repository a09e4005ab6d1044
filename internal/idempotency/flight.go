package idempotency

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/signal"
)

const (
	// stepTimeout is the timeout of one operation of the store.
	stepTimeout = 5 * time.Second
	// retryFor is the time for which a failed write of a call's result to the store is retried.
	retryFor  = time.Minute
	firstWait = 50 * time.Millisecond
	lastWait  = 2 * time.Second
)

// flight is one key with waiting calls at this replica. They share one query of the store, and at most one
// of them is executed.
type flight struct {
	claim   Claim
	prints  []string           // fingerprints of the request of the claim, by all keys
	waiters int                // guarded by Keeper.mu
	cancel  context.CancelFunc // ends the query when no call is waiting
	changed chan struct{}      // capacity one: the store should be queried again

	started     chan struct{} // closed when print is set
	fingerprint string        // "": unknown

	done    chan struct{} // closed when the fields below are set
	owner   bool          // the call was executed here
	state   State         // "": the store did not answer
	answer  []byte
	unsaved bool // the store does not have state yet
}

// join returns the flight of a key. With mine the flight is new, and belongs to this call.
func (k *Service) join(ctx context.Context, id string, r *Request, run Run) (f *flight, mine, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || !k.calls.Of(strings.Clone(r.Tenant)).Reserve(1) {
		return nil, false, false
	}
	if f = k.flights[id]; f != nil {
		f.waiters++
		return f, false, true
	}
	f = &flight{waiters: 1, changed: make(chan struct{}, 1), started: make(chan struct{}), done: make(chan struct{})}
	f.prints = k.printer.fingerprints(r)
	f.claim = Claim{
		Tenant: strings.Clone(r.Tenant), ID: id, Fingerprint: f.prints[0], Token: rand.Text(),
		Lease: k.opts.Lease, TTL: k.opts.TTL,
	}
	if r.Only == nil {
		f.claim.Limit = k.opts.MaxKeys
	}
	k.flights[id] = f
	var wanted context.Context
	wanted, f.cancel = context.WithCancel(context.Background())
	k.running.Go(func() {
		defer f.cancel()
		defer func() {
			if v := recover(); v != nil {
				recovery.Report("idempotency", v)
				k.abandon(f)
			}
		}()
		k.run(ctx, wanted, f, run)
	})
	return f, true, true
}

func (k *Service) leave(f *flight, r *Request) {
	k.calls.Of(r.Tenant).Release(1)
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.waiters--; f.waiters == 0 {
		f.cancel()
	}
}

// complete removes a flight, so that later calls start another one, and releases its waiters.
func (k *Service) complete(f *flight, s State, answer []byte) {
	k.remove(f)
	f.finish(s, answer)
}

// abandon ends a flight after a panic, unless it has landed: the outcome of its call is unknown.
func (k *Service) abandon(f *flight) {
	select {
	case <-f.done:
	default:
		f.owner = false // its call has no answer
		k.complete(f, Unknown, nil)
	}
}

func (k *Service) remove(f *flight) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.flights, f.claim.ID)
}

func (f *flight) finish(s State, answer []byte) {
	f.state, f.answer = s, answer
	close(f.done)
}

// run finds the outcome of a key, or executes its call. ctx belongs to the call that began the flight;
// wanted ends when no call is waiting.
func (k *Service) run(ctx, waiters context.Context, f *flight, run Run) {
	found, err := k.begin(waiters, f)
	switch {
	case err != nil && f.claim.Limit > 0: // it may have been claimed, and was not executed
		k.retryEnd(f, None, nil, nil)
	case err != nil:
		k.complete(f, "", nil)
	case found.State == Mine:
		k.execute(ctx, f, run)
	case found.Fingerprint != f.fingerprint: // the key was free meanwhile, and has another claim
		k.complete(f, Running, nil)
	case found.State == Answered:
		answer, err := k.sealer.Open(additionalData(f.claim.ID, f.fingerprint), found.Sealed)
		if err != nil {
			found.State = ""
		}
		k.complete(f, found.State, answer)
	default:
		k.complete(f, found.State, nil)
	}
}

// begin claims a key, or waits until it is free. It does not claim the key for a request that is rejected since the key
// belongs to another one: if that one does not start, a call that waits for it claims the key.
func (k *Service) begin(waiters context.Context, f *flight) (Found, error) {
	for first := true; ; first = false {
		ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
		found, err := k.store.Begin(ctx, &f.claim)
		cancel()
		if first {
			if err == nil {
				f.fingerprint = found.Fingerprint
			}
			if found.State == Running && !slices.Contains(f.prints, found.Fingerprint) {
				f.claim.Limit = 0 // only a query
			}
			close(f.started)
		}
		if err != nil || found.State != Running {
			return found, err
		}
		t := time.NewTimer(min(k.opts.Poll, max(found.Left, time.Millisecond)))
		select {
		case <-f.changed:
		case <-t.C:
		case <-k.closing:
			err = context.Canceled
		case <-waiters.Done():
			err = context.Canceled
		}
		if t.Stop(); err != nil {
			return Found{State: Running}, nil // no call waits
		}
	}
}

// execute executes the call, and stores its result.
func (k *Service) execute(ctx context.Context, f *flight, run Run) {
	f.owner = true
	renewing, stop := context.WithCancel(context.Background())
	defer stop() // also if the call panics: its outcome is unknown when the lease ends
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer recovery.Recover("idempotency")
		k.renew(renewing, f)
	}()
	answer, how := k.detached(ctx, run)
	stop()
	<-ended
	state, sealed := Unknown, []byte(nil)
	switch {
	case how == NotStarted:
		state = None
	case how == Executed && len(answer) > k.opts.MaxAnswer:
		state = TooLarge
	case how == Executed:
		state, sealed = Answered, k.sealer.Seal(additionalData(f.claim.ID, f.claim.Fingerprint), answer)
	}
	if k.end(f, state, sealed) {
		k.complete(f, state, answer)
		return
	}
	k.retryEnd(f, state, answer, sealed)
}

// detached runs a call to its end, independent of its caller.
func (k *Service) detached(ctx context.Context, run Run) ([]byte, Outcome) {
	k.counted.running.Add(1)
	defer k.counted.running.Add(-1)
	own := context.WithoutCancel(ctx)
	if deadline, has := ctx.Deadline(); has {
		var cancel context.CancelFunc
		own, cancel = context.WithDeadline(own, deadline)
		defer cancel()
	}
	return run(own)
}

// renew renews a claim until ctx ends.
func (k *Service) renew(ctx context.Context, f *flight) {
	t := time.NewTicker(k.opts.Lease / 3)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			_ = k.store.Renew(ctx, &f.claim) // the next renewal may succeed
		}
	}
}

// end stores the result of a claim.
func (k *Service) end(f *flight, s State, sealed []byte) bool {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	return k.store.End(ctx, &f.claim, s, sealed) == nil
}

// retryEnd retries that for a while if the store does not answer. Meanwhile the flight serves repeats. A result
// that is never stored becomes unknown.
func (k *Service) retryEnd(f *flight, s State, answer, sealed []byte) {
	defer k.remove(f)
	f.unsaved = true
	f.finish(s, answer)
	wait := firstWait
	for until := time.Now().Add(retryFor); time.Now().Before(until); wait = min(2*wait, lastWait) {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-k.closing:
			t.Stop()
			k.end(f, s, sealed)
			return
		}
		if k.end(f, s, sealed) {
			return
		}
	}
}

// additionalData returns the additional data of a sealed response: the key and the request.
func additionalData(id, fingerprint string) []byte {
	return []byte("capgate idempotency answer " + id + " " + fingerprint)
}

// notify makes the flight of a key query the store again.
func (k *Service) notify(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.flights[id]; f != nil {
		f.signal()
	}
}

func (k *Service) notifyAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.flights {
		f.signal()
	}
}

func (f *flight) signal() { signal.Wake(f.changed) }
