package fairqueue

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/capgate/capgate/internal/lib/recovery"
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
	told  bool             // there is a byte in the pipe
	lines []*line          // in which somebody waits; the first one's turn is next
	of    map[string]*line // the same, by tenant
}

// line is where one tenant's wait.
type line struct {
	tenant string
	again  []*waiter // requests that were through before; they go first
	fresh  []*rank   // the others, by where they come from; the first one's turn is next
	many   int       // of fresh, those that have not left
}

// rank is where those wait that come from one place.
type rank struct {
	from    string
	waiters []*waiter
	many    int // those that have not left
}

// waiter is one request that waits, under Turnstile.mu.
type waiter struct {
	through chan struct{} // closed when it is
	left    bool
	pushed  bool // out, by one that comes from elsewhere
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

// Pass waits for the turn of one of a tenant's, until ctx ends. Those that come from different places take
// turns within their tenant, and where too many wait the place goes short that has most of them. The error is
// ErrFull or that of ctx.
func (t *Turnstile) Pass(ctx context.Context, tenant, from string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.of[tenant]; t.most <= 0 || l != nil && l.many >= t.most && !l.pushOut(from) {
		return ErrFull
	}
	l, w := t.line(tenant), newWaiter()
	r := l.rank(from)
	r.waiters = append(r.waiters, w)
	r.many++
	l.many++
	err := t.wait(ctx, w)
	switch {
	case w.pushed:
		return ErrFull
	case w.left:
		r.many--
		l.many--
	}
	return err
}

// rank is where those wait that come from a place.
func (l *line) rank(from string) *rank {
	for _, r := range l.fresh {
		if r.from == from {
			return r
		}
	}
	r := &rank{from: from}
	l.fresh = append(l.fresh, r)
	return r
}

// pushOut sends away the last that waits of the place of which most do, for one from a place of which far fewer do.
func (l *line) pushOut(from string) bool {
	var longest *rank
	own := 0
	for _, r := range l.fresh {
		if r.from == from {
			own = r.many
		} else if longest == nil || r.many > longest.many {
			longest = r
		}
	}
	if longest == nil || longest.many < own+2 {
		return false
	}
	for _, w := range slices.Backward(longest.waiters) {
		if !w.left {
			w.left, w.pushed = true, true
			longest.many--
			l.many--
			close(w.through)
			return true
		}
	}
	return false
}

// PassAgain is for who was through and then waited for something else. It goes before those of its tenant who
// were not.
func (t *Turnstile) PassAgain(ctx context.Context, tenant string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, w := t.line(tenant), newWaiter()
	l.again = append(l.again, w)
	return t.wait(ctx, w)
}

func newWaiter() *waiter { return &waiter{through: make(chan struct{})} }

// line is where a tenant's wait. It is called with the lock.
func (t *Turnstile) line(tenant string) *line {
	l := t.of[tenant]
	if l == nil {
		l = &line{tenant: tenant}
		t.of[tenant] = l
		t.lines = append(t.lines, l)
	}
	return l
}

// wait is called with the lock, and gives it back meanwhile.
func (t *Turnstile) wait(ctx context.Context, w *waiter) error {
	t.tell()
	t.mu.Unlock()
	var err error
	select {
	case <-w.through:
	case <-ctx.Done():
		err = ctx.Err()
	}
	t.mu.Lock()
	select {
	case <-w.through:
	default:
		w.left = true
	}
	return err
}

// tell has it turn if somebody waits. It is called with the lock.
func (t *Turnstile) tell() {
	if !t.told && len(t.lines) > 0 {
		_, err := t.w.Write([]byte{0})
		t.told = err == nil
	}
}

// turn lets one through. It never has read enough.
func (t *Turnstile) turn(fd uintptr) bool {
	defer recovery.Recover("turnstile")
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
func (t *Turnstile) next() (w *waiter) {
	if len(t.lines) == 0 {
		return nil
	}
	l := t.lines[0]
	t.lines = t.lines[1:]
	if len(l.again) > 0 {
		w, l.again = l.again[0], l.again[1:]
	} else {
		w = l.nextFresh()
	}
	if len(l.again)+len(l.fresh) > 0 {
		t.lines = append(t.lines, l)
	} else {
		delete(t.of, l.tenant)
	}
	return w
}

// nextFresh takes out the next of those that were not through before. Their places take turns.
func (l *line) nextFresh() (w *waiter) {
	r := l.fresh[0]
	l.fresh = l.fresh[1:]
	if w, r.waiters = r.waiters[0], r.waiters[1:]; !w.left {
		r.many--
		l.many--
	}
	if len(r.waiters) > 0 {
		l.fresh = append(l.fresh, r)
	}
	return w
}
