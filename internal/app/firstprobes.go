package app

import (
	"context"
	"sync"
	"time"

	"github.com/capgate/capgate/health"
)

// firstProbesTimeout bounds the wait of a start for backends that do not respond.
const firstProbesTimeout = 2 * time.Second

// firstProbes is done when health has probed every backend once. Before that, the dialects of backends are
// unknown, so a call in another dialect would fail.
type firstProbes struct {
	mu   sync.Mutex
	left map[string]bool // capabilities with backends without a probe
	done chan struct{}   // closed when left is empty
}

func newFirstProbes() *firstProbes {
	return &firstProbes{left: map[string]bool{}, done: make(chan struct{})}
}

// begin sets the fleets, before the first probe. Fleets without backends are skipped.
func (l *firstProbes) begin(fleets []health.Fleet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range fleets {
		if len(f.Backends) > 0 {
			l.left[f.Capability] = true
		}
	}
	if len(l.left) == 0 {
		close(l.done)
	}
}

// probed handles a fleet's new snapshot.
func (l *firstProbes) probed(s *health.Snapshot) {
	for _, b := range s.Backends {
		if b.State == health.Unknown {
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.left[s.Capability] {
		return
	}
	delete(l.left, s.Capability)
	if len(l.left) == 0 {
		close(l.done)
	}
}

// wait returns when all probes are done, the timeout has passed, or ctx has ended.
func (l *firstProbes) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstProbesTimeout)
	defer cancel()
	select {
	case <-l.done:
	case <-ctx.Done():
	}
}
