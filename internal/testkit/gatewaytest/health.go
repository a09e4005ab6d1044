package gatewaytest

import (
	"sync"
	"testing"

	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/testkit/check"
)

// watch keeps the newest snapshot of every fleet.
type watch struct {
	mu    sync.Mutex
	known map[string]*health.Snapshot
	news  chan struct{} // closed, and replaced, by every tell
}

func newWatch() *watch {
	return &watch{known: map[string]*health.Snapshot{}, news: make(chan struct{})}
}

func (w *watch) tell(s *health.Snapshot) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known[s.Capability] = s
	close(w.news)
	w.news = make(chan struct{})
}

func (w *watch) of(capability string) (*health.Snapshot, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[capability], w.news
}

// WaitHealth waits until calls use a snapshot of the capability's fleet that ok accepts.
func (g *Gateway) WaitHealth(t testing.TB, capability string, ok func(*health.Snapshot) bool) {
	t.Helper()
	check.UntilEvent(t, "the health of "+capability, func() (bool, *health.Snapshot, <-chan struct{}) {
		s, news := g.watch.of(capability)
		return s != nil && ok(s), s, news
	})
}

// Probes returns the number of probes so far.
func (g *Gateway) Probes() int { return int(g.prober.Stats().Probes) }

// States accepts a snapshot whose backends are in these states, in their order.
func States(want ...health.State) func(*health.Snapshot) bool {
	return func(s *health.Snapshot) bool {
		for i, b := range s.Backends {
			if i >= len(want) || b.State != want[i] {
				return false
			}
		}
		return len(s.Backends) == len(want)
	}
}

func probed(s *health.Snapshot, n int) bool {
	for _, b := range s.Backends {
		if b.State == health.Unknown {
			return false
		}
	}
	return len(s.Backends) == n
}
