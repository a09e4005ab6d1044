package toolset_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/stored"
	"github.com/capgate/capgate/internal/toolset"
)

// memory is a store that a test controls.
type memory struct {
	news stored.Changes
	err  error
}

func (m *memory) Write(context.Context, *stored.Record, string) error { return nil }
func (m *memory) Changed(context.Context, changefeed.Position) (stored.Changes, error) {
	return m.news, m.err
}
func (m *memory) Watch(ctx context.Context, _ func()) { <-ctx.Done() }

// managed returns a Manager of a store, and the number of its changes.
func managed(store stored.Store) (*toolset.Manager, *int) {
	changes := 0
	return toolset.NewManager(store, func(text []byte) (*toolset.Toolset, error) {
		of := &toolset.Toolset{}
		return of, json.Unmarshal(text, of)
	}, func() { changes++ }, slog.New(slog.DiscardHandler)), &changes
}

func record(tenant, uid, etag, tool string) *stored.Record {
	return &stored.Record{Tenant: tenant, UID: uid, Name: "s", Etag: etag,
		Text: []byte(`{"Tools":[{"Capability":"c","Tool":"` + tool + `"}]}`)}
}

// TestManager: of toolsets with the same name, that of the configuration counts before that of a tenant, and that of a
// tenant before that of all tenants. Without the store, and with a text that cannot be read, the others stay.
func TestManager(t *testing.T) {
	t.Parallel()
	store := &memory{}
	m, changes := managed(store)
	store.news = stored.Changes{Now: changefeed.Position{Epoch: "e", Version: 1}, Everything: true,
		Records: []*stored.Record{record("", "", "1", "global"), record("acme", "u", "2", "own"),
			{Tenant: "acme", Name: "bad", Text: []byte("{"), Etag: "3"}}}
	m.Read(t.Context())
	tool := func(tenant, uid string) string {
		set := m.Sets().Find("s", toolset.Caller{Tenant: tenant, UID: uid})
		for _, name := range []string{"global", "own", "next", "filed"} {
			if set.Entry("c", name) != nil {
				return name
			}
		}
		return ""
	}
	want := func(what string, all ...string) {
		t.Helper()
		got := []string{tool("acme", "u"), tool("acme", "later"), tool("other", "")}
		if fmt.Sprint(got) != fmt.Sprint(all) {
			t.Errorf("%s: got %v, want %v", what, got, all)
		}
	}
	want("at the start", "own", "global", "global")
	store.err = errors.New("no answer")
	m.Read(t.Context())
	want("without the store", "own", "global", "global")
	store.err, store.news = nil, stored.Changes{Now: changefeed.Position{Epoch: "e", Version: 2},
		Records: []*stored.Record{record("acme", "u", "4", "next"), {Name: "s"}}}
	m.Read(t.Context())
	want("changed", "next", "", "")
	m.SetFile([]toolset.Toolset{{Name: "s", Tenants: []string{"acme"}, Tools: []toolset.Entry{{Capability: "c",
		Tool: "filed"}}}})
	want("with the configuration", "filed", "filed", "")
	before := *changes
	m.Read(t.Context())
	if before != 2 || *changes != before {
		t.Errorf("%d changes, and then %d", before, *changes)
	}
	store.news = stored.Changes{Now: changefeed.Position{Epoch: "f"}, Everything: true}
	if m.Read(t.Context()); len(m.Sets().All()) != 1 {
		t.Errorf("a lost store leaves %d toolsets", len(m.Sets().All()))
	}
}

// TestChangesAreOfTenants: only the callers of a changed toolset are notified.
func TestChangesAreOfTenants(t *testing.T) {
	t.Parallel()
	file := func(tool string) []toolset.Toolset {
		return []toolset.Toolset{{Name: "f", Tenants: []string{"b", "a"}, Tools: []toolset.Entry{{Tool: tool}}},
			{Name: "g", Tenants: []string{"c"}, Tools: []toolset.Entry{{Tool: "x"}}}}
	}
	store := &memory{}
	m, _ := managed(store)
	m.SetFile(file("x"))
	for _, step := range []struct {
		what     string
		change   func()
		tenants  string
		everyone bool
	}{
		{"the same configuration", func() { m.SetFile(file("x")) }, "[]", false},
		{"another entry", func() { m.SetFile(file("y")) }, "[a b]", false},
		{"another order", func() {
			all := file("y")
			m.SetFile([]toolset.Toolset{all[1], all[0]})
		}, "[]", true},
		{"a tenant's", func() {
			store.news = stored.Changes{Now: changefeed.Position{Epoch: "e", Version: 1},
				Records: []*stored.Record{record("acme", "u", "1", "x")}}
			m.Read(t.Context())
		}, "[acme]", false},
		{"that of all", func() {
			store.news = stored.Changes{Now: changefeed.Position{Epoch: "e", Version: 2},
				Records: []*stored.Record{record("", "", "2", "x")}}
			m.Read(t.Context())
		}, "[]", true},
	} {
		before := m.Sets().View()
		step.change()
		if tenants, everyone := m.Sets().View().Changes(before); fmt.Sprint(tenants) != step.tenants ||
			everyone != step.everyone {
			t.Errorf("%s: %v, %v", step.what, tenants, everyone)
		}
	}
}

// TestUnread: until the store was read once, there may be toolsets that are not known.
func TestUnread(t *testing.T) {
	t.Parallel()
	store := &memory{err: errors.New("no answer")}
	m, changes := managed(store)
	m.SetFile(nil)
	m.Read(t.Context())
	before := m.Sets().Unread()
	store.err = nil
	m.Read(t.Context())
	if after := m.Sets().Unread(); !before || after || *changes != 0 || toolset.New(nil).Unread() {
		t.Errorf("before the first read %t, after it %t, %d changes", before, after, *changes)
	}
}

// TestFirstCounts: a caller gets the first toolset of the configuration that is for it, for its tenant or for all.
func TestFirstCounts(t *testing.T) {
	t.Parallel()
	of := func(tenants ...string) toolset.Toolset { return toolset.Toolset{Name: "s", Tenants: tenants} }
	for _, c := range []struct {
		all   []toolset.Toolset
		first int
	}{
		{[]toolset.Toolset{of("b"), of("c", "a"), of()}, 1},
		{[]toolset.Toolset{of("b"), of(), of("a")}, 1},
		{[]toolset.Toolset{of("b"), {Name: "s", Groups: []string{"g"}}, of("a"), of()}, 2},
	} {
		if got := toolset.New(c.all).Find("s", toolset.Caller{Tenant: "a"}).Toolset(); got != &c.all[c.first] {
			t.Errorf("%v: got %v", c.all, got)
		}
	}
}
