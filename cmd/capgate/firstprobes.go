package main

import (
	"context"
	"sync"
	"time"

	"github.com/capgate/capgate/health"
)

// firstProbesTimeout bounds how long a start waits for backends that do not answer.
const firstProbesTimeout = 2 * time.Second

// firstProbes is done when health has asked every backend once. Before that nobody
// knows which dialect a backend speaks, so a call in another one would fail.
type firstProbes struct {
	mu   sync.Mutex
	left map[string]bool // capabilities with backends that were not asked yet
	done chan struct{}   // closed when left is empty
}

func newFirstProbes() *firstProbes {
	return &firstProbes{left: map[string]bool{}, done: make(chan struct{})}
}

// begin says which fleets there are, before any is probed. Of those without backends there
// is nothing to see.
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

// probed takes a fleet's new snapshot.
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

// wait returns when the look is done, its time is over, or ctx has ended.
func (l *firstProbes) wait(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstProbesTimeout)
	defer cancel()
	select {
	case <-l.done:
	case <-ctx.Done():
	}
}
