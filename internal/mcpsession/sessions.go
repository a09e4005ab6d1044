// Package mcpsession holds what clients of MCP revisions with sessions set for a session: the least level of the log
// messages that they want, and the resources to which they have subscribed. Every replica serves every request of a
// session, so that a Store shares both. A replica holds the levels that were set or that it has needed in memory.
package mcpsession

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/fairshare"
)

// Key identifies a session.
type Key struct {
	Tenant string `json:"tenant"`
	UID    string `json:"uid,omitempty"` // of the tenant; empty for one of the configuration
	ID     string `json:"id"`            // random
	Owner  string `json:"-"`             // the user of the session, or the key of one without a user; a Change has none
}

// Change is a change of a session.
type Change struct {
	Key
	Level string `json:"level,omitempty"` // that was set; empty means that the subscriptions have changed
}

// Bounds of what is stored.
const (
	MaxSessions = 1000           // of a tenant, that have a level; the same for subscriptions. See Store
	MaxURIs     = 64             // subscriptions of a session
	MaxURIBytes = 32 << 10       // of the URIs of a session
	TTL         = 24 * time.Hour // of a level, renewed by each use
	URITTL      = 2 * time.Hour  // of the subscriptions of a session, renewed while it has a stream
)

// ErrFull is the error of a level or a subscription beyond these bounds.
var ErrFull = errors.New("too many sessions of the tenant or of the owner have a level or subscriptions, " +
	"or the session has too many subscriptions")

// Store shares levels and subscriptions between replicas. An owner has at most four times as many of a tenant's
// MaxSessions as are free. Each method but Watch must end with its ctx.
type Store interface {
	// Level returns the level of a session, and renews it; empty means none.
	Level(ctx context.Context, key Key) (string, error)
	// SetLevel sets the level of a session. It returns ErrFull if the tenant or the owner has too many.
	SetLevel(ctx context.Context, key Key, level string) error
	// URIs returns the resources to which a session has subscribed, and renews them.
	URIs(ctx context.Context, key Key) ([]string, error)
	// Subscribe adds a resource to a session. It returns ErrFull if the session, the tenant or the owner has too
	// many.
	Subscribe(ctx context.Context, key Key, uri string) error
	// Unsubscribe removes a resource from a session.
	Unsubscribe(ctx context.Context, key Key, uri string) error
	// Watch calls changed with each change of a session, in their order, until ctx ends. It calls missed after each
	// interruption, when changes may have been lost. Neither may block.
	Watch(ctx context.Context, changed func(Change), missed func())
}

const (
	maxKnown    = 10_000           // levels in memory; the tenant with the most loses its least recent one
	knownFor    = 10 * time.Minute // before a level is read again, which renews it
	retryAfter  = 10 * time.Second // the same after an error
	readTimeout = time.Second
	readsAtOnce = 16 // of subscriptions, which all streams read after an interruption
)

// Sessions gives access to the levels and subscriptions of sessions. It is safe for concurrent use.
type Sessions struct {
	store Store
	reads chan struct{} // reads of subscriptions in progress

	mu      sync.Mutex
	known   *fairshare.LRU[string, string, level]
	changes uint64                      // of any session; a level that was read before a change is not kept
	misses  uint64                      // interruptions, after which a level is read again
	streams map[string]map[*stream]bool // of sessions, by their ids; bounded by the number of streams
}

// level is a level in memory.
type level struct {
	text   string
	until  time.Time // when it is read again
	misses uint64    // before it was read
}

// New returns Sessions with a store.
func New(s Store) *Sessions {
	return &Sessions{store: s, reads: make(chan struct{}, readsAtOnce),
		known:   fairshare.NewLRU[string, string, level](maxKnown, nil),
		streams: map[string]map[*stream]bool{}}
}

// Run follows the changes of the store until ctx ends.
func (s *Sessions) Run(ctx context.Context) { s.store.Watch(ctx, s.changed, s.missed) }

// changed keeps the new level of a session, or notifies its streams of its subscriptions.
func (s *Sessions) changed(c Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Level != "" {
		s.keep(c.Key, c.Level, knownFor)
		return
	}
	for of := range s.streams[c.ID] {
		of.changed()
	}
}

// keep keeps a level for a time before it is read again.
func (s *Sessions) keep(of Key, text string, d time.Duration) {
	s.changes++
	s.known.Add(of.Tenant+"\n"+of.UID, of.ID, level{text, time.Now().Add(d), s.misses})
}

// missed makes all levels be read again, and notifies all streams.
func (s *Sessions) missed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	s.misses++
	for _, all := range s.streams {
		for of := range all {
			of.changed()
		}
	}
}

// stream is a stream of a session at this replica.
type stream struct{ changed func() }

// Stream calls changed after each change of a session, until leave is called. It may not block.
func (s *Sessions) Stream(id string, changed func()) (leave func()) {
	of := &stream{changed}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.streams[id] == nil {
		s.streams[id] = map[*stream]bool{}
	}
	s.streams[id][of] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.streams[id], of); len(s.streams[id]) == 0 {
			delete(s.streams, id)
		}
	}
}

// URIs returns the resources to which a session has subscribed. The error is that of the store or of
// ctx.
func (s *Sessions) URIs(ctx context.Context, key Key) ([]string, error) {
	select {
	case s.reads <- struct{}{}:
		defer func() { <-s.reads }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return s.store.URIs(ctx, key)
}

// Subscribe adds a resource to a session at all replicas. The error is that of the store.
func (s *Sessions) Subscribe(ctx context.Context, key Key, uri string) error {
	defer s.changed(Change{Key: key})
	return s.store.Subscribe(ctx, key, uri)
}

// Unsubscribe removes a resource from a session at all replicas. The error is that of the store.
func (s *Sessions) Unsubscribe(ctx context.Context, key Key, uri string) error {
	defer s.changed(Change{Key: key})
	return s.store.Unsubscribe(ctx, key, uri)
}

// Level returns the level of a session; empty means none. If the store is unavailable, the last known one counts.
func (s *Sessions) Level(ctx context.Context, key Key) string {
	known, fresh, before := s.last(key.ID)
	if fresh {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	text, err := s.store.Level(ctx, key)
	d := knownFor
	if err != nil {
		text, d = known, retryAfter
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes == before {
		s.keep(key, text, d)
	}
	return text
}

// last returns the level in memory, whether it is fresh, and the number of changes.
func (s *Sessions) last(id string) (text string, fresh bool, changes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.known.Get(id)
	return known.text, ok && known.misses == s.misses && time.Now().Before(known.until), s.changes
}

// SetLevel sets the level of a session at all replicas. The error is that of the store.
func (s *Sessions) SetLevel(ctx context.Context, key Key, level string) error {
	if known, fresh, _ := s.last(key.ID); fresh && known == level {
		return nil
	}
	if err := s.store.SetLevel(ctx, key, level); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keep(key, level, 0) // another replica may have set another one since
	return nil
}
