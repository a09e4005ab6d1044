package tools

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/router"
)

// served is a server of lists, which answers each request by the next response.
type served struct{ responses chan string }

var errDown = errors.New("down")

// list implements the function of features. An empty response is a failure.
func (s *served) list(ctx context.Context, _ string) ([]byte, error) {
	select {
	case text := <-s.responses:
		if text == "" {
			return nil, errDown
		}
		return []byte(text), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func startServed(t *testing.T, wait time.Duration) (*features, *served) {
	t.Helper()
	table, err := router.NewTable(router.Config{}, nil)
	check.Must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	s := &served{responses: make(chan string)}
	f := newFeatures(ctx, router.New(table), s.list)
	f.wait, f.limit = wait, check.Patience
	t.Cleanup(func() {
		stop()
		f.close()
	})
	return f, s
}

// refreshed waits for the end of the request of a fleet, whose response is text.
func (s *served) refreshed(f *features, capability, text string) {
	pending := f.now(capability).pending
	s.responses <- text
	<-pending
}

// age makes the features of a fleet old.
func age(f *features, capability string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entry(capability).fresh = time.Time{}
}

const onePrompt = `{"prompts":[{"name":"greet"}]}`

// TestOldFeatures: callers get the known list of a server at once while the server does not answer, also after a
// failure. One request at a time reaches it.
func TestOldFeatures(t *testing.T) {
	t.Parallel()
	f, s := startServed(t, check.Patience)
	s.refreshed(f, "one", onePrompt)
	for _, response := range []string{"", onePrompt, `{"prompts":[]}`} {
		age(f, "one")
		// The server does not answer before all callers have the known list.
		pending := f.now("one").pending
		for range 3 {
			if known := f.of(t.Context(), "one"); known == nil || len(known.Prompts) != 1 {
				t.Fatalf("%+v", known)
			}
			if f.now("one").pending != pending {
				t.Fatal("a second request began")
			}
		}
		s.refreshed(f, "one", response)
	}
	if known := f.of(t.Context(), "one"); len(known.Prompts) != 0 {
		t.Errorf("a new list does not replace the old one: %+v", known)
	}
}

// TestFirstFeatures: a caller waits for the first list, but not for long.
func TestFirstFeatures(t *testing.T) {
	t.Parallel()
	f, s := startServed(t, check.Patience)
	f.now("one")
	go func() { s.responses <- onePrompt }()
	if known := f.of(t.Context(), "one"); known == nil || len(known.Prompts) != 1 {
		t.Errorf("%+v", known)
	}
	hung, _ := startServed(t, 0)
	if known := hung.of(t.Context(), "two"); known != nil || hung.now("two").pending == nil {
		t.Errorf("%+v of a server that does not answer", known)
	}
}

// TestChangedFeatures: features are requested again at once when they may have changed, also while their request is in
// progress, and only if a caller has needed them. Streams are notified if they have changed.
func TestChangedFeatures(t *testing.T) {
	t.Parallel()
	f, s := startServed(t, check.Patience)
	changes, v := new(ViewChanges), &view{due: make(chan struct{}, 1)}
	changes.add(v)
	changes.list(f)
	f.changes = changes
	of := func(capability string) listedFeatures {
		f.mu.Lock()
		defer f.mu.Unlock()
		if e := f.all[capability]; e != nil {
			return *e
		}
		return listedFeatures{}
	}
	s.refreshed(f, "one", onePrompt)
	check.Received(t, v.due, "the first list")
	if f.seen("one") == nil || of("one").pending != nil {
		t.Error("a stream requests fresh features again")
	}
	age(f, "one")
	if f.seen("one") == nil || of("one").pending != nil {
		t.Error("a stream requests old features again")
	}
	changes.Send(ViewChange{Capability: "one"})
	check.Received(t, v.due, "a change of a rule")
	changes.Send(ViewChange{Capability: "two", Listed: true})
	check.Received(t, v.due, "a change of other tools")
	if of("one").pending != nil || of("two").pending != nil {
		t.Fatal("features are requested that have not changed, or that no caller has needed")
	}
	changes.Send(ViewChange{Capability: "one", Listed: true})
	first := of("one").pending
	if first == nil {
		t.Fatal("changed features are not requested")
	}
	changes.Send(ViewChange{Capability: "one", Listed: true})
	check.Received(t, v.due, "both changes")
	s.responses <- onePrompt // from before the second change
	<-first
	second := of("one").pending
	if second == nil {
		t.Fatal("features that changed during their request are not requested again")
	}
	s.responses <- `{"prompts":[]}`
	<-second
	check.Received(t, v.due, "the new list")
	if known := f.seen("one"); len(known.Prompts) != 0 {
		t.Errorf("%+v", known)
	}
	changes.Send(ViewChange{Capability: "one", Listed: true})
	check.Received(t, v.due, "the last change")
	s.responses <- `{"prompts":[]}`
	f.close()
	if len(v.due) > 0 {
		t.Error("streams are notified of features that have not changed")
	}
}

// TestClosedFeatures: no request begins after close.
func TestClosedFeatures(t *testing.T) {
	t.Parallel()
	f, _ := startServed(t, check.Patience)
	f.close()
	if f.of(t.Context(), "one") != nil || f.now("one").pending != nil {
		t.Error("a request began")
	}
}
