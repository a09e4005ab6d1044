package turnstile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// ErrFull is the error when too many of a tenant wait.
var ErrFull = errors.New("too many of the tenant wait for their turn")

// Turnstile lets one through each time that the runtime has looked which sockets have become readable.
//
// It looks when no goroutine can run, or every 10 ms only: if each request began as soon as it is there,
// all others would wait for that. The turnstile tells itself to turn by a pipe, which is one of the things
// that are looked at: who is let through comes after all that could run before.
type Turnstile struct {
	most int // who may wait of one tenant
	r, w *os.File
	done sync.WaitGroup

	mu    sync.Mutex
	told  bool      // there is a byte in the pipe
	again []*waiter // who was through before
	lines []*line   // of those who were not; the first one's turn is next
	of    map[string]*line
}

// line is where one tenant's wait.
type line struct {
	tenant  string
	waiters []*waiter
	waiting int // of waiters, those that have not left
}

// waiter is one who waits, under Turnstile.mu.
type waiter struct {
	line    *line         // nil: who was through before
	through chan struct{} // closed when it is
	left    bool
}

// New makes a Turnstile at which so many of one tenant may wait. It is to be closed.
func New(most int) (*Turnstile, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("turnstile: %w", err)
	}
	in, err := r.SyscallConn()
	if err != nil {
		_, _ = r.Close(), w.Close()
		return nil, fmt.Errorf("turnstile: %w", err)
	}
	t := &Turnstile{most: most, r: r, w: w, of: map[string]*line{}}
	t.done.Go(func() { _ = in.Read(t.turn) })
	return t, nil
}

// Close ends it. Who still waits does so until its context ends.
func (t *Turnstile) Close() {
	_, _ = t.r.Close(), t.w.Close()
	t.done.Wait()
}

// Pass waits for the turn of one of a tenant's, until ctx ends. The error is ErrFull or that of ctx.
func (t *Turnstile) Pass(ctx context.Context, tenant string) error {
	t.mu.Lock()
	l := t.of[tenant]
	if l == nil {
		l = &line{tenant: tenant}
		t.of[tenant] = l
		t.lines = append(t.lines, l)
	}
	if l.waiting >= t.most {
		t.mu.Unlock()
		return ErrFull
	}
	w := &waiter{line: l, through: make(chan struct{})}
	l.waiters = append(l.waiters, w)
	l.waiting++
	return t.wait(ctx, w)
}

// PassAgain is for who was through and then waited for something else. It goes before those who were not.
func (t *Turnstile) PassAgain(ctx context.Context) error {
	t.mu.Lock()
	w := &waiter{through: make(chan struct{})}
	t.again = append(t.again, w)
	return t.wait(ctx, w)
}

// wait is called with the lock, and gives it back.
func (t *Turnstile) wait(ctx context.Context, w *waiter) error {
	t.tell()
	t.mu.Unlock()
	select {
	case <-w.through:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if w.left = true; w.line != nil {
		w.line.waiting--
	}
	return ctx.Err()
}

// tell has it turn if somebody waits. It is called with the lock.
func (t *Turnstile) tell() {
	if !t.told && len(t.again)+len(t.lines) > 0 {
		_, err := t.w.Write([]byte{0})
		t.told = err == nil
	}
}

// turn lets one through. It never has read enough.
func (t *Turnstile) turn(fd uintptr) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b [1]byte
	if n, err := syscall.Read(int(fd), b[:]); n == 0 || err != nil {
		return false // nobody has told it
	}
	t.told = false
	for w := t.next(); w != nil; w = t.next() {
		if !w.left {
			close(w.through)
			break
		}
	}
	t.tell()
	return false
}

// next takes out whose turn it is; nil when nobody waits.
func (t *Turnstile) next() *waiter {
	if len(t.again) > 0 {
		w := t.again[0]
		t.again = t.again[1:]
		return w
	}
	if len(t.lines) == 0 {
		return nil
	}
	l := t.lines[0]
	t.lines = t.lines[1:]
	w := l.waiters[0]
	if l.waiters = l.waiters[1:]; len(l.waiters) > 0 {
		t.lines = append(t.lines, l)
	} else {
		delete(t.of, l.tenant)
	}
	if !w.left {
		l.waiting--
	}
	return w
}
