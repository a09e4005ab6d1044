package sessions_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/upstream/sessions"
)

// store is a store of any number of sessions. It has the last result of Enter.
type store struct {
	all  map[sessions.Name]sessions.Session
	last sessions.Name
	err  error
}

func (s *store) Enter(_ context.Context, name sessions.Name, own sessions.Session, _ time.Duration) ([]byte, int64,
	error) {
	s.last = name
	held, is := s.all[name]
	switch {
	case s.err != nil || is && held.ID == own.ID || !is && own.ID == "":
		return nil, 0, s.err
	case is:
		return held.Value, 1, nil
	}
	s.all[name] = own
	return nil, 0, nil
}

func (s *store) End(_ context.Context, name sessions.Name, id string, _ time.Duration) (bool, error) {
	is := s.all[name].ID == id
	if is {
		delete(s.all, name)
	}
	return is, s.err
}

func keysOf(first ...byte) func(context.Context) [][]byte {
	return func(context.Context) (all [][]byte) {
		for _, b := range first {
			all = append(all, bytes.Repeat([]byte{b}, 32))
		}
		return all
	}
}

// TestPlacesAreApart: a session is found by its own name and secret alone, and the store learns neither its name nor
// its value.
func TestPlacesAreApart(t *testing.T) {
	t.Parallel()
	ctx, of := t.Context(), &store{all: map[sessions.Name]sessions.Session{}}
	place := func(keys func(context.Context) [][]byte, tenant, capability string, name any) *sessions.Place {
		return (&sessions.Shared{Store: of, Keys: keys}).Place(ctx, tenant, capability, time.Hour, name)
	}
	keys := keysOf(1)
	first := place(keys, "acme/1", "files", []any{"url", "session"})
	if value, _, is := first.Enter(ctx, "secret-id", []byte("secret value"), 0); value != nil || !is {
		t.Fatalf("%q, %t", value, is)
	}
	if of.last.Tenant != "acme" {
		t.Errorf("%+v", of.last)
	}
	for name, s := range of.all {
		if text := name.Sum + s.ID + string(s.Value); strings.Contains(text, "secret") {
			t.Errorf("the store has %q", text)
		}
	}
	for i, same := range []*sessions.Place{place(keys, "acme/1", "files", []any{"url", "session"}),
		place(keysOf(1, 2), "acme/1", "files", []any{"url", "session"})} {
		if value, use, is := same.Enter(ctx, "", nil, 0); string(value) != "secret value" || use != 1 || is {
			t.Errorf("%d: %q, %d, %t", i, value, use, is)
		}
	}
	for i, other := range []*sessions.Place{place(keys, "acme/2", "files", []any{"url", "session"}),
		place(keys, "acme", "files", []any{"url", "session"}), place(keys, "acme/1", "mail", []any{"url", "session"}),
		place(keys, "acme/1", "files", []any{"url", "sessio", "n"}),
		place(keysOf(2, 1), "acme/1", "files", []any{"url", "session"})} {
		if value, _, is := other.Enter(ctx, "", nil, 0); value != nil || is {
			t.Errorf("%d: %q, %t", i, value, is)
		}
	}
	if first.End(ctx, "other-id", 0) || !first.End(ctx, "secret-id", 0) || first.End(ctx, "secret-id", 0) {
		t.Error("a session ends by its own id, once")
	}
}

// TestValuesStayAtTheirPlace: a value that was copied to another name, or is not encrypted, counts as absent.
func TestValuesStayAtTheirPlace(t *testing.T) {
	t.Parallel()
	ctx, of := t.Context(), &store{all: map[sessions.Name]sessions.Session{}}
	shared := &sessions.Shared{Store: of, Keys: keysOf(1)}
	one, two := shared.Place(ctx, "acme", "files", time.Hour, 1), shared.Place(ctx, "acme", "files", time.Hour, 2)
	one.Enter(ctx, "a", []byte("value"), 0)
	copied := of.all[of.last]
	two.Enter(ctx, "", nil, 0)
	for _, value := range [][]byte{copied.Value, []byte("value"), {}, make([]byte, 1<<20)} {
		of.all[of.last] = sessions.Session{ID: "x", Value: value}
		if got, _, is := two.Enter(ctx, "b", []byte("own"), 0); got != nil || is {
			t.Errorf("%d bytes: %q, %t", len(value), got, is)
		}
	}
}

// TestNothingIsShared: without a store, keys or an answer of the store, and if the value is too large.
func TestNothingIsShared(t *testing.T) {
	t.Parallel()
	ctx, of := t.Context(), &store{all: map[sessions.Name]sessions.Session{}}
	for i, s := range []*sessions.Shared{nil, {}, {Store: of}, {Store: of, Keys: keysOf()},
		{Store: &store{err: errors.New("away")}, Keys: keysOf(1)}} {
		p := s.Place(ctx, "acme", "files", time.Hour, nil)
		if value, _, is := p.Enter(ctx, "a", []byte("v"), 0); value != nil || is || p.End(ctx, "a", 0) {
			t.Errorf("%d: %q, %t", i, value, is)
		}
	}
	p := (&sessions.Shared{Store: of, Keys: keysOf(1)}).Place(ctx, "acme", "files", time.Hour, nil)
	if _, _, is := p.Enter(ctx, "a", make([]byte, sessions.Max+1), 0); is || len(of.all) > 0 {
		t.Error("a value that is too large is stored")
	}
	if _, _, is := p.Enter(ctx, "a", make([]byte, sessions.Max), 0); !is {
		t.Error("a value of the maximum size is not stored")
	}
}
