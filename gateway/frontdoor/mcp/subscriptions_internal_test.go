package mcp

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

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
