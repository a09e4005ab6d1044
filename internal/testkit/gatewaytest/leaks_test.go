package gatewaytest

import (
	"context"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/ratelimit"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestLabelled: goroutines of a gateway, and those that they start, are found until they have ended.
func TestLabelled(t *testing.T) {
	t.Parallel()
	check.Must(t, labelTraces())
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
	stacks, others := goroutines(label), goroutines(label+"0")
	if len(stacks) != 1 || !strings.Contains(stacks[0], "TestLabelled") || len(others) > 0 {
		t.Errorf("the stacks of the goroutine: %q; of another label: %q", stacks, others)
	}
	close(stop)
	check.Received(t, ended, "the goroutine to end")
	assertNothingLeft(t, label)
}

// TestConnectionsOfASharedStore: the connections of a store that gateways share do not count as a leak, whichever
// gateway opened them.
func TestConnectionsOfASharedStore(t *testing.T) {
	t.Parallel()
	check.Must(t, labelTraces())
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
