package gateway_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/router"
)

// TestQueuedKeyedCallOutlivesItsClient: a call with an idempotency key whose client leaves while it waits for a backend
// runs later, with what a trusted proxy said about it, and not about the calls that its connection has had meanwhile.
func TestQueuedKeyedCallOutlivesItsClient(t *testing.T) {
	t.Parallel()
	one := gatewaytest.NewCapability("one")
	g := gatewaytest.Start(t, gatewaytest.Options{
		ClientAddr: clientaddr.New(clientaddr.Config{Trusted: loopback}),
		Answers:    gatewaytest.Answers(t, gatewaytest.OpenStore(t, "embedded"), idempotency.Options{}),
		Fleets: []gatewaytest.Fleet{{
			Capability: "caps", Dialect: call.Doc, Unprobed: true, Keyed: true,
			Backends: []string{one.Serve(t, call.Doc).Addr},
			Limit:    router.Limit{PerBackend: 1, Queue: router.Queue{Size: 1, Wait: time.Hour}},
		}}})
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	first := make(chan error, 1)
	go func() { first <- invokeBlock(client)(t.Context()) }()
	check.Received(t, one.Blocked(), "the first call")

	leaving, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	host := strings.Repeat("keyed.", 40) + "example"
	go func() {
		ctx := metadata.AppendToOutgoingContext(leaving, "idempotency-key", "k", "x-forwarded-host", host)
		_, err := client.Invoke(ctx, request(gatewaytest.Echo, `{}`))
		left <- err
	}()
	waitWaiting(t, g, 1)
	leave()
	if err := check.Received(t, left, "the end of the keyed call"); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	for range 20 {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-forwarded-host", strings.Repeat("other.", 60))
		if _, err := client.Invoke(ctx, request("none", `{}`)); err == nil {
			t.Error("a call of a full fleet")
		}
	}
	one.Release()
	check.Must(t, check.Received(t, first, "the end of the first call"))
	one.WaitSeen(t, 2)
	if got := one.Seen()[1].Metadata.Get("x-forwarded-host"); len(got) != 1 || got[0] != host {
		t.Errorf("the backend got %q", got)
	}
}
