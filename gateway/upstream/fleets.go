package upstream

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/semaphore"
)

// Backend is a backend of a fleet.
type Backend interface {
	// Fleet returns the fleet that the backend was opened for.
	Fleet() *Fleet
	// Uses counts calls and other uses of the backend.
	Uses() *sync.WaitGroup
	// Close ends the backend's connections. It is called when there are no uses.
	Close()
}

// Kind has the protocol-specific functions of Fleets.
type Kind[B Backend] struct {
	// Open opens a backend. It must not block.
	Open func(f *Fleet, addr string) (B, error)
	// Same reports whether the settings of two fleets make the same calls.
	Same func(a, b *Fleet) bool
	// Gone is the error for a removed backend.
	Gone error
}

// Fleets holds the fleets of one protocol, and their backends that have been used. It is safe for concurrent use.
type Fleets[B Backend] struct {
	Options
	Work *semaphore.Semaphore // limits the CPU work of discoveries, by fleet
	kind Kind[B]

	mu       sync.Mutex
	fleets   map[string]*Fleet
	backends map[Key]B
	closed   bool
	closing  sync.WaitGroup // waits for backends to be closed
}

// Key identifies a backend.
type Key struct{ Capability, Addr string }

const (
	defaultSessionTTL = time.Hour

	atOnce     = 2   // discoveries that compile the listed tools; at most one per fleet
	maxWaiting = 100 // discoveries of a fleet that wait for that; at most one per backend
)

// NewFleets returns Fleets without a fleet.
func NewFleets[B Backend](o Options, k Kind[B]) *Fleets[B] {
	return &Fleets[B]{Options: o.withDefaults(), Work: semaphore.New(atOnce, maxWaiting), kind: k,
		fleets: map[string]*Fleet{}, backends: map[Key]B{}}
}

// Replace replaces all fleets. It returns the previous fleets whose tools or connections have changed. Their backends,
// and removed ones, are closed when they have no uses.
func (s *Fleets[B]) Replace(fleets []Fleet) (changed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.fleets
	s.fleets = make(map[string]*Fleet, len(fleets))
	for i := range fleets {
		f := fleets[i]
		f.SessionTTL = cmp.Or(f.SessionTTL, defaultSessionTTL)
		if old := before[f.Capability]; old != nil && !s.same(old, &f) {
			changed = append(changed, f.Capability)
		}
		s.fleets[f.Capability] = &f
	}
	for key, b := range s.backends {
		f := s.fleets[key.Capability]
		switch {
		case !s.has(key) || !s.same(b.Fleet(), f):
			s.retire(key, b)
		case b.Fleet().Hosts[key.Addr] != f.Hosts[key.Addr]: // those of others do not matter
			s.retire(key, b)
			if !slices.Contains(changed, key.Capability) {
				changed = append(changed, key.Capability)
			}
		}
	}
	return changed
}

// same reports whether two fleets have the same tools, and their calls reach a backend in the same way.
func (s *Fleets[B]) same(a, b *Fleet) bool {
	return a.TLS == b.TLS && a.Content == b.Content && a.Sessions == b.Sessions && a.SessionTTL == b.SessionTTL &&
		maps.Equal(a.Headers, b.Headers) && a.Assertion.Equal(b.Assertion) && s.kind.Same(a, b)
}

// Has reports whether a fleet has a backend.
func (s *Fleets[B]) Has(key Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.has(key)
}

// has is Has. The caller must hold mu.
func (s *Fleets[B]) has(key Key) bool {
	f := s.fleets[key.Capability]
	return f != nil && slices.Contains(f.Backends, key.Addr)
}

// Close closes all connections and waits for their end. No call may be running.
func (s *Fleets[B]) Close() {
	s.mu.Lock()
	s.closed = true
	for key, b := range s.backends {
		s.retire(key, b)
	}
	s.mu.Unlock()
	s.closing.Wait()
}

// retire removes a backend. The caller must hold mu.
func (s *Fleets[B]) retire(key Key, b B) {
	delete(s.backends, key)
	s.closing.Go(func() {
		b.Uses().Wait()
		b.Close()
	})
}

// Lookup returns a backend, which stays open until release is called.
func (s *Fleets[B]) Lookup(capability, addr string) (b B, release func(), _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := Key{capability, addr}
	if s.closed || !s.has(key) {
		return b, nil, s.kind.Gone
	}
	b, open := s.backends[key]
	if !open {
		var err error
		if b, err = s.kind.Open(s.fleets[capability], addr); err != nil {
			return b, nil, err
		}
		s.backends[key] = b
	}
	b.Uses().Add(1)
	return b, b.Uses().Done, nil
}

// Opened returns a backend, and whether it is open. It may close at any time.
func (s *Fleets[B]) Opened(capability, addr string) (b B, open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, open = s.backends[Key{capability, addr}]
	return b, open
}

// Fleet returns a fleet; nil means none.
func (s *Fleets[B]) Fleet(capability string) *Fleet {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fleets[capability]
}
