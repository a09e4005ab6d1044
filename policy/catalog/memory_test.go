package catalog_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy/catalog"
	"github.com/capgate/capgate/policy/catalog/storetest"
)

var errUnavailable = errors.New("unavailable")

// memory is a catalog.Store and catalog.Rules in memory. The zero value is ready to use.
type memory struct {
	mu          sync.Mutex
	unavailable bool
	stuck       bool // rules cannot be deleted
	now         changefeed.Position
	shared      map[string]*catalog.Record
	changed     map[string]uint64 // version of the last change, by capability
	turns       map[string]*turn
	forgotten   []string // "capability tool"
	followers   []func()
	epochs      int
}

func TestMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	storetest.Suite().Run(t, func() catalog.Store { return &memory{} })
}

type turn struct {
	id           string
	began, until time.Time
}

func (m *memory) of(capability string) *catalog.Record {
	if m.shared == nil {
		m.shared = map[string]*catalog.Record{}
	}
	s := m.shared[capability]
	if s == nil {
		s = &catalog.Record{Accepted: map[string]toolschema.Hash{}}
		m.shared[capability] = s
	}
	return s
}

// note records a change of a capability.
func (m *memory) note(capability string) {
	if m.now.Epoch == "" {
		m.epochs++
		m.now.Epoch = strconv.Itoa(m.epochs)
	}
	m.now.Version++
	if m.changed == nil {
		m.changed = map[string]uint64{}
	}
	m.changed[capability] = m.now.Version
	for _, f := range m.followers {
		f()
	}
}

func (m *memory) Watch(ctx context.Context, changed func()) {
	m.set(func() { m.followers = append(m.followers, changed) })
	changed()
	<-ctx.Done()
}

func (m *memory) Changed(_ context.Context, since changefeed.Position) (catalog.Changes, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unavailable {
		return catalog.Changes{}, errUnavailable
	}
	news := catalog.Changes{Now: m.now, Everything: m.now.Epoch != since.Epoch || since.Version > m.now.Version}
	for capability, version := range m.changed {
		if version > since.Version {
			news.Capabilities = append(news.Capabilities, capability)
		}
	}
	return news, nil
}

func (m *memory) Read(_ context.Context, wants []catalog.ReadRequest) (all []catalog.Record, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unavailable {
		return nil, errUnavailable
	}
	for _, w := range wants {
		s := *m.of(w.Capability)
		s.Accepted = maps.Clone(s.Accepted)
		if s.Sum == w.Sum {
			s.Set = nil
		}
		all = append(all, s)
	}
	return all, nil
}

func (m *memory) Write(_ context.Context, c catalog.Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unavailable {
		return errUnavailable
	}
	s := m.of(c.Capability)
	if c.Lease != "" {
		t := m.turns[c.Capability]
		if t == nil || t.id != c.Lease {
			return catalog.ErrLeaseLost
		}
		t.until = time.Time{}
		if s.Last.Error = c.Error; c.Error == "" {
			s.Last.Succeeded, s.Last.LeftOut = time.Now(), c.LeftOut
		} else {
			s.Last.Failed = time.Now()
		}
	}
	before := *s
	s.Accepted, s.Removed = maps.Clone(s.Accepted), maps.Clone(s.Removed)
	for tool, hash := range c.Tools {
		if _, known := s.Accepted[tool]; !known {
			s.Accepted[tool] = hash
		}
		delete(s.Removed, tool)
	}
	for _, tool := range c.Removed {
		if _, known := s.Accepted[tool]; !known {
			continue
		}
		if s.Removed == nil {
			s.Removed = map[string]bool{}
		}
		s.Removed[tool] = true
	}
	if c.Sum != "" {
		s.Sum, s.Set = c.Sum, c.Set
	}
	if c.Lease != "" || s.Sum != before.Sum || !maps.Equal(s.Accepted, before.Accepted) ||
		!maps.Equal(s.Removed, before.Removed) {
		m.note(c.Capability)
	}
	return nil
}

func (m *memory) Accept(_ context.Context, capability, tool string, hash toolschema.Hash) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unavailable {
		return errUnavailable
	}
	m.of(capability).Accepted[tool] = hash
	m.note(capability)
	return nil
}

func (m *memory) AcquireLease(_ context.Context, capability string, lease,
	within time.Duration) (catalog.Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unavailable {
		return catalog.Lease{}, errUnavailable
	}
	now := time.Now()
	if t := m.turns[capability]; t != nil {
		if left := t.until.Sub(now); left > 0 {
			return catalog.Lease{Busy: true, Wait: left}, nil
		}
		if left := within - now.Sub(t.began); left > 0 {
			return catalog.Lease{Wait: left}, nil
		}
	}
	if m.turns == nil {
		m.turns = map[string]*turn{}
	}
	m.epochs++
	t := &turn{"turn-" + strconv.Itoa(m.epochs), now, now.Add(lease)}
	m.turns[capability] = t
	return catalog.Lease{ID: t.id}, nil
}

func (m *memory) DeleteTool(_ context.Context, capability, tool string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unavailable || m.stuck {
		return errUnavailable
	}
	m.forgotten = append(m.forgotten, capability+" "+tool)
	return nil
}

func (m *memory) set(change func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change()
}

// lose empties the store, like a Redis that restarts without data.
func (m *memory) lose() {
	m.set(func() { m.now, m.shared, m.changed, m.turns = changefeed.Position{}, nil, nil, nil })
}

func (m *memory) lost() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(slices.Values(m.forgotten))
}

// tool returns a tool with one property.
func tool(t testing.TB, name, description, property string) manifest.Tool {
	t.Helper()
	schema, err := toolschema.Compile(
		[]byte(`{"type": "object", "properties": {"` + property + `": {"type": "integer"}}}`))
	check.Must(t, err)
	return manifest.Tool{Name: name, Description: description, Schema: schema, Recommends: true,
		Recommended: call.Allow}
}

func static(tools ...manifest.Tool) map[string]catalog.Declaration {
	return map[string]catalog.Declaration{"weather": {Manifest: &manifest.Manifest{ID: "weather", Tools: tools}}}
}

// known returns the names of known tools, with "!" for drifted ones.
func known(c *catalog.Catalog) (names []string) {
	tools, _ := c.Tools("weather")
	for i := range tools {
		name := tools[i].Name
		if tools[i].Drifted {
			name += "!"
		}
		names = append(names, name)
	}
	return names
}

func want(t *testing.T, c *catalog.Catalog, when string, names ...string) {
	t.Helper()
	if got := known(c); !slices.Equal(got, names) {
		t.Errorf("%s: %q, want %q", when, got, names)
	}
}
