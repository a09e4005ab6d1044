package toolset

import (
	"log/slog"
	"slices"
	"sync"

	"github.com/capgate/capgate/internal/stored"
)

// MaxText is the maximum length of the text of a stored toolset, in bytes.
const MaxText = 64 << 10

// Kind is the kind of the toolsets that operators set. The text of a record is JSON, which is read like a toolset of
// the configuration.
var Kind = stored.Kind{Name: "toolset", Names: "toolsets",
	Limits:    stored.Limits{Objects: 10_000, Bytes: 16 << 20, TenantObjects: 64, TenantBytes: 1 << 20},
	CheckName: CheckName}

// Manager keeps the toolsets of a replica: those of the configuration, and those of a store.
type Manager struct {
	*stored.Mirror[*Set]
	parse func(text []byte) (*Toolset, error)
	sets  *Sets

	mu   sync.Mutex
	file []*Set
	own  []*Set // stored
	read bool   // the store has been read
}

// NewManager returns a Manager without toolsets. parse reads the text of a record, and changed is called after each
// change of the stored toolsets.
func NewManager(store stored.Store, parse func(text []byte) (*Toolset, error), changed func(),
	log *slog.Logger) *Manager {
	m := &Manager{parse: parse, sets: &Sets{}}
	m.Mirror = stored.NewMirror(Kind, store, m.newStored, m.setStored, changed, log)
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

// setStored replaces the stored toolsets.
func (m *Manager) setStored(all []*Set) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.own, m.read = all, true
	m.publish()
}

// publish puts the toolsets in force: those of the configuration first, then those of tenants. The caller holds m.mu.
func (m *Manager) publish() {
	now := newSets(slices.Concat(m.file, m.own))
	now.unread = !m.read
	m.sets.now.Store(now)
}

// newStored returns a stored toolset.
func (m *Manager) newStored(r *stored.Record) (*Set, error) {
	of, err := m.parse(r.Text)
	if err != nil {
		return nil, err
	}
	if of.Name, of.Tenants = r.Name, nil; r.Tenant != "" {
		of.Tenants = []string{r.Tenant}
	}
	s := newSet(of)
	s.record = r
	return s, nil
}

// Parse reads the text of a toolset.
func (m *Manager) Parse(text []byte) (*Toolset, error) { return m.parse(text) }
