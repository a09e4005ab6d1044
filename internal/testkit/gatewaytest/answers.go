package gatewaytest

import (
	"bytes"
	"context"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
)

// Answers returns an idempotency service on a store, until the test ends. All services of one store share their
// responses.
func Answers(t testing.TB, s *redisstore.Store, o idempotency.Options) *idempotency.Service {
	t.Helper()
	o.Keys = [][]byte{bytes.Repeat([]byte{7}, aead.KeyBytes)}
	if o.Lease == 0 {
		o.Lease = time.Hour // longer than any pause of a busy machine
	}
	k, err := idempotency.New(s.Idempotency(), o)
	check.Must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { k.Run(ctx) })
	check.Cleanup(t, func() {
		k.Close()
		stop()
		check.Ended(t, &running, "the background work to end")
	})
	return k
}

// SharedKeys returns the same keys for all replicas of a test, like Options.MCP.Keys.
func SharedKeys(context.Context) [][]byte { return [][]byte{bytes.Repeat([]byte{9}, aead.KeyBytes)} }
