package mcp

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/questions"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/mcpsession"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestSubscriptionsAreReadAgain: a stream reads the subscriptions of its session again if that has failed.
func TestSubscriptionsAreReadAgain(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		reads := 0
		s := new(Handler).newSubscriptions(t.Context(), nil, nil)
		s.read = func(context.Context) ([]string, error) {
			if reads++; reads == 1 {
				return nil, errors.New("unavailable")
			}
			return nil, nil
		}
		s.changed()
		time.Sleep(2 * urisRetry) //nolint:forbidigo // in a bubble
		synctest.Wait()
		if reads != 2 {
			t.Errorf("%d reads", reads)
		}
		s.stop()
	})
}

// TestSubscriptionsAreCharged: subscriptions are charged from the first one on, with the goroutine of their stream.
func TestSubscriptionsAreCharged(t *testing.T) {
	t.Parallel()
	const has, uri = 1 << 20, "note://a"
	left := &room{has}
	s := new(Handler).newSubscriptions(context.WithValue(t.Context(), request.ResultsKey(), left), nil, nil)
	defer s.stop()
	for _, c := range []struct{ subscriptions, least int64 }{{0, 0}, {1, 11 << 10}, {15, 25 << 10}, {1, 25 << 10}} {
		err := s.keep(slices.Repeat([]string{uri}, int(c.subscriptions)))
		if held := has - left.left; err != nil || held < c.least || held > c.least+15*int64(len(uri)) {
			t.Errorf("%d subscriptions hold %d bytes; %v", c.subscriptions, held, err)
		}
	}
	left.left = 1 << 10
	if err := s.keep(slices.Repeat([]string{uri}, 20)); !errors.Is(err, errNoRoom) {
		t.Errorf("without room: %v", err)
	}
}

// TestChangesOfSubscriptionsAreLimited: all replicas receive a change, so that a tenant makes about a thousand at once.
func TestChangesOfSubscriptionsAreLimited(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		h := New(Config{Features: ruledFeatures{}, Questions: questions.New(), Levels: mcpsession.New(nil),
			Owner:   func(r *http.Request) string { return r.Host },
			Session: func(*http.Request, string) mcpsession.Key { return mcpsession.Key{} }})
		change := func(tenant string) error {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+tenant+Path, nil)
			_, err := h.subscriber(&exchange{r: r, session: session{ID: "s"}}, "note://a")
			return err
		}
		for i := range forwardBurst / forwardCost {
			if err := change("acme"); err != nil {
				t.Fatalf("change %d: %v", i, err)
			}
		}
		if reason := status.InfoOf(change("acme")).GetReason(); reason != subscriptionsLimited {
			t.Errorf("a further change: %q", reason)
		}
		if err := change("globex"); err != nil {
			t.Errorf("the change of another tenant: %v", err)
		}
	})
}
