package extauthz

import (
	"context"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// flights are the questions that are being asked. All who ask the same get the same
// answer, and when the last of them leaves the question ends: nothing of it outlives them.
type flights struct {
	ctx     context.Context
	timeout time.Duration

	mu     sync.Mutex
	byHash map[hash]*flight
}

type flight struct {
	waiting int // under the mutex of flights
	cancel  context.CancelFunc

	done    chan struct{} // closed when the two below are there
	verdict verdict
	err     error
}

// join waits for a question of this hash until ctx ends. Where nobody asks it, ask does,
// which holds the lease to its end; the caller holds it too.
func (f *flights) join(ctx context.Context, h hash, l *lease, ask func(context.Context) (verdict, error)) (verdict, error) {
	fl := f.board(h, l, ask)
	select {
	case <-fl.done:
		f.leave(h, fl)
		return fl.verdict, fl.err
	case <-ctx.Done():
		f.leave(h, fl)
		return verdict{}, ctx.Err()
	}
}

func (f *flights) board(h hash, l *lease, ask func(context.Context) (verdict, error)) *flight {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl := f.byHash[h]; fl != nil {
		fl.waiting++
		return fl
	}
	ctx, cancel := context.WithTimeout(f.ctx, f.timeout)
	fl := &flight{waiting: 1, cancel: cancel, done: make(chan struct{})}
	f.byHash[h] = fl
	l.hold() // is true, as the caller holds it
	go func() {
		defer l.release()
		defer cancel()
		fl.err = recovery.Do("shield", func() (err error) {
			fl.verdict, err = ask(ctx)
			return err
		})
		f.mu.Lock()
		f.forget(h, fl)
		f.mu.Unlock()
		close(fl.done)
	}()
	return fl
}

func (f *flights) leave(h hash, fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl.waiting--; fl.waiting == 0 {
		f.forget(h, fl)
		fl.cancel()
	}
}

// forget lets whoever asks next ask anew. The mutex is held.
func (f *flights) forget(h hash, fl *flight) {
	if f.byHash[h] == fl {
		delete(f.byHash, h)
	}
}
