package toolset

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/changefeed"
)

// readInterval is the interval of reads of the store, besides those after notifications.
const readInterval = 5 * time.Second

// Manager keeps the toolsets of a replica: those of the configuration, and those of a store.
type Manager struct {
	store   Store
	parse   func(text []byte) (*Toolset, error)
	changed func()
	log     *slog.Logger
	wake    chan struct{}
	sets    *Sets

	mu     sync.Mutex
	file   []*Set
	stored map[stored]*Set
	at     changefeed.Position
	read   bool // the store has been read
}

// stored identifies a stored toolset.
type stored struct{ tenant, name string }

// NewManager returns a Manager without toolsets. parse reads the text of a Record, and changed is called after each
// change of the stored toolsets.
func NewManager(store Store, parse func(text []byte) (*Toolset, error), changed func(), log *slog.Logger) *Manager {
	m := &Manager{store: store, parse: parse, changed: changed, log: log, wake: make(chan struct{}, 1),
		sets: &Sets{}, stored: map[stored]*Set{}}
	m.publish()
	return m
}

// Sets returns the toolsets. They follow all changes.
func (m *Manager) Sets() *Sets { return m.sets }

// SetFile replaces the toolsets of the configuration, which must not change.
func (m *Manager) SetFile(all []Toolset) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.file = fileSets(all)
	m.publish()
}

// publish puts the toolsets in force: those of the configuration first, then those of tenants. The caller holds m.mu.
func (m *Manager) publish() {
	own := slices.SortedFunc(maps.Values(m.stored), func(a, b *Set) int {
		return cmp.Or(-cmp.Compare(a.record.Tenant, b.record.Tenant), cmp.Compare(a.of.Name, b.of.Name))
	})
	now := newSets(slices.Concat(m.file, own))
	now.unread = !m.read
	m.sets.now.Store(now)
}

// Run follows the store until ctx ends.
func (m *Manager) Run(ctx context.Context) {
	changefeed.Poll(ctx, "toolsets", m.wake, m.store.Watch, func(ctx context.Context) time.Duration {
		m.Read(ctx)
		return readInterval
	})
}

// Read reads what has changed in the store. If it does not respond, the known toolsets stay.
func (m *Manager) Read(ctx context.Context) { _ = m.readAll(ctx) }

// readAll reads until this replica knows all that was written before the call.
func (m *Manager) readAll(ctx context.Context) error {
	for done := false; !done; {
		m.mu.Lock()
		at := m.at
		m.mu.Unlock()
		news, err := m.store.Changed(ctx, at)
		m.mu.Lock()
		if err != nil {
			m.mu.Unlock()
			m.log.Debug("toolsets cannot be read; the known ones stay in force", "error", err)
			return err
		}
		done = m.at == at // otherwise, another read has been faster
		did := done && m.apply(&news)
		m.mu.Unlock()
		if did && m.changed != nil {
			m.changed()
		}
	}
	return nil
}

// apply applies changes, and reports whether there are any. The caller holds m.mu.
func (m *Manager) apply(news *Changes) bool {
	before := m.stored
	if m.stored = maps.Clone(before); news.Everything {
		m.stored = map[stored]*Set{}
	}
	for _, r := range news.Records {
		id := stored{r.Tenant, r.Name}
		switch old := before[id]; {
		case len(r.Text) == 0:
			delete(m.stored, id)
		case old != nil && old.record.Etag == r.Etag:
			m.stored[id] = old
		default:
			s, err := m.parse(r.Text)
			if err != nil { // of another version of the gateway
				m.log.Warn("a stored toolset cannot be read", "toolset", r.Name, "tenant", r.Tenant, "error", err)
				delete(m.stored, id)
				continue
			}
			m.stored[id] = newStored(s, r)
		}
	}
	m.at = news.Now
	same := maps.Equal(before, m.stored)
	if !same || !m.read {
		m.read = true
		m.publish()
	}
	return !same
}

// Write writes a toolset, which this replica then knows. ErrUnread means that it does not yet.
func (m *Manager) Write(ctx context.Context, r *Record, etag string) error {
	err := m.store.Write(ctx, r, etag)
	unread := m.readAll(ctx) // also after an error, because the toolset may have been written
	if err == nil && unread != nil {
		return fmt.Errorf("%w: %w", ErrUnread, unread)
	}
	return err
}

// Parse reads the text of a toolset.
func (m *Manager) Parse(text []byte) (*Toolset, error) { return m.parse(text) }
