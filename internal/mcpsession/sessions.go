// Package mcpsession holds what clients of MCP revisions with sessions set for a session: the least level of the log
// messages that they want. Every replica serves every request of a session, so that a Store shares the levels. A
// replica holds those that it has needed in memory.
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
	Tenant, UID string // of the caller; UID is empty for a tenant of the configuration
	ID          string // random
}

// Bounds of the stored levels.
const (
	MaxSessions = 1000           // of a tenant, that have a level
	TTL         = 24 * time.Hour // of a level, renewed by each use
)

// ErrFull is the error of a level beyond MaxSessions.
var ErrFull = errors.New("too many sessions of the tenant have a level")

// Store shares levels between replicas. Each method but Watch must end with its ctx.
type Store interface {
	// Level returns the level of a session, and renews it; empty means none.
	Level(ctx context.Context, key Key) (string, error)
	// SetLevel sets the level of a session. It returns ErrFull if the tenant has too many.
	SetLevel(ctx context.Context, key Key, level string) error
	// Watch calls changed with the id of each session whose level was set, until ctx ends. It calls missed after each
	// interruption, when changes may have been lost. Neither may block.
	Watch(ctx context.Context, changed func(id string), missed func())
}

const (
	maxKnown    = 10_000           // levels in memory; the tenant with the most loses its least recent one
	knownFor    = 10 * time.Minute // before a level is read again, which renews it
	retryAfter  = 10 * time.Second // the same after an error
	readTimeout = time.Second
)

// Sessions gives access to the levels of sessions. It is safe for concurrent use.
type Sessions struct {
	store Store

	mu      sync.Mutex
	known   *fairshare.LRU[string, string, level]
	changes uint64 // of any session; a level that was read before a change is not kept
}

// level is a level in memory.
type level struct {
	text  string
	until time.Time // when it is read again
}

// New returns Sessions with a store.
func New(s Store) *Sessions {
	return &Sessions{store: s, known: fairshare.NewLRU[string, string, level](maxKnown, nil)}
}

// Run follows the changes of the store until ctx ends.
func (s *Sessions) Run(ctx context.Context) { s.store.Watch(ctx, s.changed, s.missed) }

// changed drops the level of a session.
func (s *Sessions) changed(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	s.known.Remove(id)
}

// missed drops all levels.
func (s *Sessions) missed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changes++
	s.known.Purge()
}

// Level returns the level of a session; empty means none. After the first call it is in memory. If the store is
// unavailable, the last known one counts.
func (s *Sessions) Level(ctx context.Context, key Key) string {
	known, fresh, before := s.last(key.ID)
	if fresh {
		return known
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	text, err := s.store.Level(ctx, key)
	next := level{text, time.Now().Add(knownFor)}
	if err != nil {
		next = level{known, time.Now().Add(retryAfter)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changes == before {
		s.known.Add(key.Tenant+"\n"+key.UID, key.ID, next)
	}
	return next.text
}

// last returns the level in memory, whether it is fresh, and the number of changes.
func (s *Sessions) last(id string) (text string, fresh bool, changes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.known.Get(id)
	return known.text, ok && time.Now().Before(known.until), s.changes
}

// SetLevel sets the level of a session at all replicas. The error is that of the store.
func (s *Sessions) SetLevel(ctx context.Context, key Key, level string) error {
	if known, fresh, _ := s.last(key.ID); fresh && known == level {
		return nil
	}
	defer s.changed(key.ID)
	return s.store.SetLevel(ctx, key, level)
}
