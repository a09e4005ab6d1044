package turnstile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
)

// ErrFull is the error when too many requests of a tenant wait.
var ErrFull = errors.New("too many requests of the tenant wait")

// Turnstile has places for requests that begin.
//
// A free place alone lets nobody in. The runtime looks which sockets have become readable when no
// goroutine can run, or every 10 ms only: if each request began as soon as another had, all others would
// wait for that. So the turnstile tells itself to turn by a pipe, which is one of the things that are
// looked at, and who is let in comes after what has become readable before.
type Turnstile struct {
	most int // who may wait of one tenant
	r, w *os.File
	done sync.WaitGroup

	mu    sync.Mutex
	free  int       // places
	told  bool      // there is a byte in the pipe
	back  []*waiter // who was in already
	lines []*line   // of those who were not; the first one's turn is next
	of    map[string]*line
}

// line is where one tenant's requests wait.
type line struct {
	tenant  string
	waiters []*waiter
	waiting int // of waiters, those that have not left
}

// waiter is one who waits, under Turnstile.mu.
type waiter struct {
	line  *line         // nil: who was in already
	given chan struct{} // closed when it has a place
	has   bool
	left  bool
}

// New makes a Turnstile with so many places, for which so many of one tenant may wait. It is to be closed.
func New(places, most int) (*Turnstile, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("turnstile: %w", err)
	}
	t := &Turnstile{free: places, most: most, r: r, w: w, of: map[string]*line{}}
	t.done.Go(t.run)
	return t, nil
}

// Close ends it, when nobody waits any more.
func (t *Turnstile) Close() {
	_ = t.w.Close() // run comes to the end
	t.done.Wait()
	_ = t.r.Close()
}

// run turns each time that it is told to.
func (t *Turnstile) run() {
	var b [1]byte
	for {
		if _, err := t.r.Read(b[:]); err != nil {
			return
		}
		t.mu.Lock()
		t.told = false
		t.turn()
		t.tell()
		t.mu.Unlock()
	}
}

// tell has it turn if there is whom to let in. It is called with the lock.
func (t *Turnstile) tell() {
	if t.told || t.free == 0 || len(t.back)+len(t.lines) == 0 {
		return
	}
	_, err := t.w.Write([]byte{0})
	t.told = err == nil
}

// turn lets one in. It is called with the lock.
func (t *Turnstile) turn() {
	for t.free > 0 {
		w := t.next()
		if w == nil {
			return
		}
		if !w.left {
			t.free--
			w.has = true
			close(w.given)
			return
		}
	}
}

// next takes out whose turn it is; nil when nobody waits.
func (t *Turnstile) next() *waiter {
	if len(t.back) > 0 {
		w := t.back[0]
		t.back = t.back[1:]
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

// Enter waits for a place until ctx ends. The error is ErrFull or that of ctx; without one,
// the Place is to be left.
func (t *Turnstile) Enter(ctx context.Context, tenant string) (*Place, error) {
	t.mu.Lock()
	l := t.of[tenant]
	if l == nil {
		l = &line{tenant: tenant}
		t.of[tenant] = l
		t.lines = append(t.lines, l)
	}
	if l.waiting >= t.most {
		t.mu.Unlock()
		return nil, ErrFull
	}
	w := &waiter{line: l, given: make(chan struct{})}
	l.waiters = append(l.waiters, w)
	l.waiting++
	t.tell()
	t.mu.Unlock()
	if err := t.wait(ctx, w); err != nil {
		return nil, err
	}
	return &Place{of: t, state: inside}, nil
}

// release gives a place back. It is called with the lock.
func (t *Turnstile) release() {
	t.free++
	t.tell()
}

func (t *Turnstile) wait(ctx context.Context, w *waiter) error {
	select {
	case <-w.given:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case w.has:
		t.release()
	case w.line != nil:
		w.line.waiting--
		fallthrough
	default:
		w.left = true
	}
	return ctx.Err()
}

// Place is one in a Turnstile. It may be used by several goroutines.
type Place struct {
	of    *Turnstile
	state state // under of.mu
}

type state uint8

const (
	inside state = iota
	paused
	left
)

// Leave gives the place up. It may be called again.
func (p *Place) Leave() {
	t := p.of
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.state == inside {
		t.release()
	}
	p.state = left
}

// Pause gives the place up for as long as wait takes, and then waits for one again unless it was left
// meanwhile; who comes back goes before all others. The error is that of ctx: then it is left.
func (p *Place) Pause(ctx context.Context, wait func()) error {
	t := p.of
	t.mu.Lock()
	if p.state != inside {
		t.mu.Unlock()
		wait()
		return nil
	}
	p.state = paused
	t.release()
	t.mu.Unlock()

	wait()

	t.mu.Lock()
	if p.state == left {
		t.mu.Unlock()
		return nil
	}
	w := &waiter{given: make(chan struct{})}
	t.back = append(t.back, w)
	t.tell()
	t.mu.Unlock()
	err := t.wait(ctx, w)
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err != nil:
		p.state = left
	case p.state == left: // meanwhile
		t.release()
	default:
		p.state = inside
	}
	return err
}
