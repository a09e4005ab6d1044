package idempotency

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

const (
	// patience is the timeout of one operation of the store.
	patience = 5 * time.Second
	// insist is how long the result of a call is retried at the store.
	insist    = time.Minute
	firstWait = 50 * time.Millisecond
	lastWait  = 2 * time.Second
)

// flight is one key with waiting calls at this replica. They share one query of the store, and at most one
// of them is executed.
type flight struct {
	claim   Claim
	waiters int                // guarded by Keeper.mu
	quit    context.CancelFunc // ends the query when no call waits any more
	news    chan struct{}      // capacity one: the store should be queried again

	begun chan struct{} // closed when print is set
	print string        // "": unknown

	over   chan struct{} // closed when the fields below are set
	owner  bool          // the call was executed here
	state  State         // "": the store did not answer
	answer []byte
	untold bool // the store does not have state yet
}

// join returns the flight of a key. With mine the flight is new, and belongs to this call.
func (k *Keeper) join(ctx context.Context, id string, r *Request, run Run) (f *flight, mine, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || !k.calls.Of(strings.Clone(r.Tenant)).Reserve(1) {
		return nil, false, false
	}
	if f = k.flights[id]; f != nil {
		f.waiters++
		return f, false, true
	}
	f = &flight{waiters: 1, news: make(chan struct{}, 1), begun: make(chan struct{}), over: make(chan struct{})}
	f.claim = Claim{Tenant: strings.Clone(r.Tenant), ID: id, Print: k.printer.print(r), Token: rand.Text(), Lease: k.opts.Lease, TTL: k.opts.TTL}
	if r.Only == nil {
		f.claim.Most = k.opts.MaxKeys
	}
	k.flights[id] = f
	var wanted context.Context
	wanted, f.quit = context.WithCancel(context.Background())
	k.running.Go(func() {
		defer f.quit()
		defer func() {
			if v := recover(); v != nil {
				recovery.Report("idempotency", v)
				k.abandon(f)
			}
		}()
		k.fly(ctx, wanted, f, run)
	})
	return f, true, true
}

func (k *Keeper) leave(f *flight, r *Request) {
	k.calls.Of(r.Tenant).Release(1)
	k.mu.Lock()
	defer k.mu.Unlock()
	if f.waiters--; f.waiters == 0 {
		f.quit()
	}
}

// land removes a flight, so that later calls start another one, and releases its waiters.
func (k *Keeper) land(f *flight, s State, answer []byte) {
	k.remove(f)
	f.finish(s, answer)
}

// abandon ends a flight after a panic, unless it has landed: the outcome of its call is unknown.
func (k *Keeper) abandon(f *flight) {
	select {
	case <-f.over:
	default:
		k.land(f, Unknown, nil)
	}
}

func (k *Keeper) remove(f *flight) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.flights, f.claim.ID)
}

func (f *flight) finish(s State, answer []byte) {
	f.state, f.answer = s, answer
	close(f.over)
}

// fly finds the outcome of a key, or executes its call. ctx belongs to the call that began the flight;
// wanted ends when no call waits any more.
func (k *Keeper) fly(ctx, wanted context.Context, f *flight, run Run) {
	found, err := k.begin(wanted, f)
	switch {
	case err != nil && f.claim.Most > 0: // it may have been claimed, and was not executed
		k.settle(f, None, nil, nil)
	case err != nil:
		k.land(f, "", nil)
	case found.State == Mine:
		k.carryOut(ctx, f, run)
	case found.State == Answered:
		answer, err := k.sealer.Open(f.bond(), found.Sealed)
		if err != nil {
			found.State = ""
		}
		k.land(f, found.State, answer)
	default:
		k.land(f, found.State, nil)
	}
}

// begin claims a key, or waits until it is free.
func (k *Keeper) begin(wanted context.Context, f *flight) (Found, error) {
	for first := true; ; first = false {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		found, err := k.store.Begin(ctx, &f.claim)
		cancel()
		if first {
			if err == nil {
				f.print = found.Print
			}
			close(f.begun)
		}
		if err != nil || found.State != Running {
			return found, err
		}
		t := time.NewTimer(min(k.opts.Poll, max(found.Left, time.Millisecond)))
		select {
		case <-f.news:
		case <-t.C:
		case <-k.closing:
			err = context.Canceled
		case <-wanted.Done():
			err = context.Canceled
		}
		if t.Stop(); err != nil {
			return Found{State: Running}, nil // no call waits
		}
	}
}

// carryOut executes the call, and stores its result.
func (k *Keeper) carryOut(ctx context.Context, f *flight, run Run) {
	f.owner = true
	k.counted.running.Add(1)
	defer k.counted.running.Add(-1)
	renewing, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer recovery.Recover("idempotency")
		k.renew(renewing, f)
	}()
	answer, how := detached(ctx, run)
	stop()
	<-ended
	state, sealed := Unknown, []byte(nil)
	switch {
	case how == NotStarted:
		state = None
	case how == Certain && len(answer) > k.opts.MaxAnswer:
		state = TooLarge
	case how == Certain:
		state, sealed = Answered, k.sealer.Seal(f.bond(), answer)
	}
	if k.end(f, state, sealed) {
		k.land(f, state, answer)
		return
	}
	k.settle(f, state, answer, sealed)
}

// detached runs a call to its end, independent of its caller.
func detached(ctx context.Context, run Run) ([]byte, Ended) {
	own := context.WithoutCancel(ctx)
	if deadline, has := ctx.Deadline(); has {
		var cancel context.CancelFunc
		own, cancel = context.WithDeadline(own, deadline)
		defer cancel()
	}
	return run(own)
}

// renew renews a claim until ctx ends.
func (k *Keeper) renew(ctx context.Context, f *flight) {
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
func (k *Keeper) end(f *flight, s State, sealed []byte) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return k.store.End(ctx, &f.claim, s, sealed) == nil
}

// settle retries that for a while if the store does not answer. Meanwhile the flight serves repeats. A result
// that is never stored becomes unknown.
func (k *Keeper) settle(f *flight, s State, answer, sealed []byte) {
	defer k.remove(f)
	f.untold = true
	f.finish(s, answer)
	wait := firstWait
	for until := time.Now().Add(insist); time.Now().Before(until); wait = min(2*wait, lastWait) {
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

// bond is the additional data of a sealed response: the key and the request.
func (f *flight) bond() []byte {
	return []byte("capgate idempotency answer " + f.claim.ID + " " + f.print)
}

// wake makes the flight of a key query the store again.
func (k *Keeper) wake(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if f := k.flights[id]; f != nil {
		f.ask()
	}
}

func (k *Keeper) wakeAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, f := range k.flights {
		f.ask()
	}
}

func (f *flight) ask() {
	select {
	case f.news <- struct{}{}:
	default:
	}
}
