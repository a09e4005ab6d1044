package session

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/accept"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/signal"
)

// followRound is the interval of checks of a long response.
const followRound = time.Second

// Follow returns a context for a long response. It ends when check returns false: when the credential of the request
// is no longer valid, or has other rights. check is called every second and after each revocation. It must return soon
// after its context ends. There is a goroutine only during a check, because there may be many long responses.
func (m *Manager) Follow(ctx context.Context, check func(context.Context) bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	f := &follower{ctx: ctx, cancel: cancel, check: check, of: &m.revoked.follows}
	f.task.Run = f.run
	m.revoked.follows.add(f)
	return ctx, f.stop
}

// followers holds the long responses that are checked. Its size is bounded by their number.
type followers struct {
	mu  sync.Mutex
	all map[*follower]struct{}
}

type follower struct {
	ctx    context.Context //nolint:containedctx // of the response
	cancel context.CancelFunc
	check  func(context.Context) bool
	of     *followers
	task   signal.Task
	timer  *time.Timer // of the next check; guarded by followers.mu, like ended
	ended  bool
}

func (s *followers) add(f *follower) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[*follower]struct{}{}
	}
	s.all[f] = struct{}{}
	f.timer = time.AfterFunc(followRound, f.task.Wake)
}

// revoked makes all responses be checked now.
func (s *followers) revoked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.all {
		f.task.Wake()
	}
}

// run checks a response once.
func (f *follower) run() {
	alive := f.ctx.Err() == nil
	if alive {
		recovery.Round("sessions", func() { alive = false; alive = f.check(f.ctx) })
	}
	if !alive {
		f.stop()
		return
	}
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if !f.ended {
		f.timer.Reset(followRound)
	}
}

// stop ends the checks, and the context.
func (f *follower) stop() {
	f.cancel()
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.ended = true
	f.timer.Stop()
	delete(f.of.all, f)
}

// Lasts reports whether the response to a request may last.
func Lasts(r *http.Request) bool {
	return accept.Named(r.Header, "text/event-stream") || strings.HasSuffix(r.URL.Path, "/events") ||
		strings.HasSuffix(r.URL.Path, ":invoke") || strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}
