package stored_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/capgate/capgate/internal/lib/changefeed"
	"github.com/capgate/capgate/internal/stored"
	"github.com/capgate/capgate/internal/testkit/check"
)

// memory is a store that a test controls. race is called once, during the next read.
type memory struct {
	news stored.Changes
	err  error
	race func()
}

func (m *memory) Write(context.Context, *stored.Record, string) error { return nil }

func (m *memory) Changed(_ context.Context, since changefeed.Position) (stored.Changes, error) {
	news := m.news
	if race := m.race; race != nil {
		m.race = nil
		race()
	}
	if news.Now == since {
		news.Records = nil
	}
	return news, m.err
}

func (m *memory) Watch(ctx context.Context, _ func()) { <-ctx.Done() }

// at sets what the next reads find at a version.
func (m *memory) at(version uint64, everything bool, all ...*stored.Record) {
	m.news = stored.Changes{Now: changefeed.Position{Epoch: "e", Version: version}, Everything: everything,
		Records: all}
}

func banner(tenant, name, etag, text string) *stored.Record {
	return &stored.Record{Tenant: tenant, Name: name, Etag: etag, Text: []byte(text)}
}

// mirrored returns a Mirror of texts, and a function that returns the published ones, with the number of parsed texts
// and of changes.
func mirrored(store stored.Store) (m *stored.Mirror[string], state func() string) {
	var published []string
	parsed, changes := 0, 0
	m = stored.NewMirror(stored.Kind{Name: "banner", Names: "banners"}, store, func(r *stored.Record) (string, error) {
		if parsed++; string(r.Text) == "bad" {
			return "", errors.New("bad")
		}
		return r.Tenant + ":" + string(r.Text), nil
	}, func(all []string) { published = all }, func() { changes++ }, slog.New(slog.DiscardHandler))
	return m, func() string { return fmt.Sprint(published, parsed, changes) }
}

// TestMirror: a replica parses each version of an object once. Objects are sorted, those of tenants first. Without the
// store the known ones stay, and after a loss of its content none.
func TestMirror(t *testing.T) {
	t.Parallel()
	store := &memory{}
	m, state := mirrored(store)
	for _, step := range []struct {
		what, want string
		change     func()
	}{
		{"nothing is stored", "[] 0 0", func() {}},
		{"some objects", "[b:1 a:1 a:2 :1] 4 1", func() {
			store.at(1, true, banner("", "x", "1", "1"), banner("a", "x", "1", "1"), banner("a", "y", "2", "2"),
				banner("b", "x", "1", "1"))
		}},
		{"no answer", "[b:1 a:1 a:2 :1] 4 1", func() { store.err = errors.New("no answer") }},
		{"a change, a deletion, and a known version", "[b:1 a:3 :1] 5 2", func() {
			store.err = nil
			store.at(2, false, banner("a", "x", "3", "3"), banner("a", "y", "", ""), banner("b", "x", "1", "1"))
		}},
		{"a text that cannot be parsed", "[a:3 :1] 6 3", func() { store.at(3, false, banner("b", "x", "4", "bad")) }},
		{"the store has lost all", "[] 6 4", func() { store.at(1, true) }},
	} {
		step.change()
		if m.Read(t.Context()); state() != step.want {
			t.Errorf("%s: got %s, want %s", step.what, state(), step.want)
		}
	}
}

// TestWriteIsKnown: a replica knows what it has written, even if another read of the store was faster.
func TestWriteIsKnown(t *testing.T) {
	t.Parallel()
	store := &memory{}
	m, state := mirrored(store)
	store.at(1, false, banner("a", "x", "1", "old"))
	store.race = func() {
		m.Read(t.Context())
		store.at(2, false, banner("a", "x", "2", "new"))
	}
	check.Must(t, m.Write(t.Context(), banner("a", "x", "", "new"), ""))
	if got := state(); got != "[a:new] 2 2" {
		t.Error(got)
	}
}

// TestUnreadWrite: a change that the replica cannot read is stored.
func TestUnreadWrite(t *testing.T) {
	t.Parallel()
	m, _ := mirrored(&memory{err: errors.New("no answer")})
	if err := m.Write(t.Context(), banner("a", "x", "", "new"), ""); !errors.Is(err, stored.ErrUnread) {
		t.Error(err)
	}
}
