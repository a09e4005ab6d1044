package mcp

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

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
