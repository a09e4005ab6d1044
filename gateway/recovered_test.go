package gateway_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestARecoveredBackendHasCallsAgain: one of five backends was slow for a while. With one call at a time it is
// tried again a few seconds later, and then gets its share of the calls.
func TestARecoveredBackendHasCallsAgain(t *testing.T) {
	t.Parallel()
	var slow atomic.Bool
	slow.Store(true)
	var came atomic.Int64
	delayed := grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo,
		next grpc.UnaryHandler) (any, error) {
		came.Add(1)
		if slow.Load() {
			<-time.After(30 * time.Millisecond)
		}
		return next(ctx, req)
	})
	f := gatewaytest.Fleet{Capability: "caps", Dialect: call.Doc, Unprobed: true,
		Backends: []string{gatewaytest.NewCapability("slow").Serve(t, call.Doc, delayed).Addr}}
	for range 4 {
		f.Backends = append(f.Backends, gatewaytest.NewCapability("fast").Serve(t, call.Doc).Addr)
	}
	g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{f}})
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	calls := func() {
		t.Helper()
		if _, err := client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`)); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; n < 200 || came.Load() == 0; n++ { // until the slow one is known
		calls()
	}
	slow.Store(false)
	before, began := came.Load(), time.Now()
	// A busy machine may take a minute for so many calls.
	for n := 0; came.Load()-before < 20; n++ {
		if n >= 1000 && time.Since(began) > check.Patience {
			t.Fatalf("the backend that is as fast as the others had %d of %d calls", came.Load()-before, n)
		}
		calls()
	}
}
