package redisstore_test

import (
	"context"
	"sync"
	"testing"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
)

// TestCancellations: a replica receives the names of requests that were canceled at another one.
func TestCancellations(t *testing.T) {
	onEveryRedis(t, func(t *testing.T, open func() *redisstore.Store) {
		a, b := open().Cancellations(), open().Cancellations()
		ctx, stop := context.WithCancel(t.Context())
		connected, got := make(chan struct{}, 10), make(chan string, 10)
		var watching sync.WaitGroup
		watching.Go(func() {
			b.Watch(ctx, func(request string) { got <- request }, func() { connected <- struct{}{} })
		})
		check.Received(t, connected, "the connection")
		check.Must(t, a.Publish(ctx, "s1\n7"))
		if request := check.Received(t, got, "the result"); request != "s1\n7" {
			t.Errorf("got %q", request)
		}
		stop()
		check.Ended(t, &watching, "the watches to stop")
	})
}
