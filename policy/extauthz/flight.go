package extauthz

import (
	"context"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// flights are the requests in flight. Equal calls share one request. When the last of them leaves, the
// request is canceled.
type flights struct {
	ctx     context.Context
	timeout time.Duration

	mu     sync.Mutex
	byHash map[hash]*flight
}

type flight struct {
	waiting int // guarded by flights.mu
	cancel  context.CancelFunc

	done    chan struct{} // closed when the fields below are set
	verdict verdict
	err     error
}

// do waits for the request with this hash until ctx ends. If there is none, it starts ask, which
// holds the lease until it ends; the caller holds the lease too.
func (f *flights) do(ctx context.Context, h hash, l *lease, ask func(context.Context) (verdict, error)) (
	verdict, error) {
	fl := f.startOrJoin(h, l, ask)
	select {
	case <-fl.done:
		f.leave(h, fl)
		return fl.verdict, fl.err
	case <-ctx.Done():
		f.leave(h, fl)
		return verdict{}, ctx.Err()
	}
}

// startOrJoin returns the flight with this hash, or starts one.
func (f *flights) startOrJoin(h hash, l *lease, ask func(context.Context) (verdict, error)) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl := f.byHash[h]; fl != nil {
		fl.waiting++
		return fl
	}
	ctx, cancel := context.WithTimeout(f.ctx, f.timeout)
	fl := &flight{waiting: 1, cancel: cancel, done: make(chan struct{})}
	f.byHash[h] = fl
	l.acquire() // always true, as the caller holds it
	go func() {
		defer l.release()
		defer cancel()
		fl.err = recovery.Do("shield", func() (err error) {
			fl.verdict, err = ask(ctx)
			return err
		})
		f.mu.Lock()
		f.remove(h, fl)
		f.mu.Unlock()
		close(fl.done)
	}()
	return fl
}

// leave ends the wait of one call.
func (f *flights) leave(h hash, fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl.waiting--; fl.waiting == 0 {
		f.remove(h, fl)
		fl.cancel()
	}
}

// remove removes a flight, so that the next call starts another one. The caller holds mu.
func (f *flights) remove(h hash, fl *flight) {
	if f.byHash[h] == fl {
		delete(f.byHash, h)
	}
}
