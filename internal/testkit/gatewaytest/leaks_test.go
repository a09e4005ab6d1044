package gatewaytest

import (
	"context"
	"runtime/pprof"
	"testing"

	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestLabelled: goroutines of a gateway, and those that they start, are found until they have ended.
func TestLabelled(t *testing.T) {
	t.Parallel()
	label := newLabel(t, &Gateway{})
	stop, ended := make(chan struct{}), make(chan struct{})
	pprof.Do(t.Context(), pprof.Labels(labelKey, label), func(context.Context) {
		go func() {
			go func() {
				<-stop
				close(ended)
			}()
		}()
	})
	seen, stacks, other := labelled(t, label), goroutines(t, label), labelled(t, label+"0")
	if !seen || len(stacks) == 0 || other {
		t.Errorf("the goroutine is seen: %t, with the stacks %q; one of another label: %t", seen, stacks, other)
	}
	close(stop)
	check.Received(t, ended, "the goroutine to end")
	assertNothingLeft(t, label)
}

// TestConnectionsOfASharedStore: the connections of a store that gateways share do not count as a leak, whichever
// gateway opened them.
func TestConnectionsOfASharedStore(t *testing.T) {
	t.Parallel()
	label, store := newLabel(t, &Gateway{}), OpenStore(t, "embedded")
	ended := make(chan error, 2*16)
	pprof.Do(t.Context(), pprof.Labels(labelKey, label), func(ctx context.Context) {
		for range cap(ended) {
			go func() {
				_, err := store.Limits("replica").Spent(ctx, ratelimit.Owner{ID: "acme"}, []ratelimit.Name{{}})
				ended <- err
			}()
		}
	})
	for range cap(ended) {
		check.Must(t, check.Received(t, ended, "a command"))
	}
	assertNothingLeft(t, label)
}
