package gateway_test

import (
	"context"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
)

// TestClientsDoNotRepeatCallsOfEngines: grpc-go's retry policy does not repeat a call that an engine had when
// it died.
func TestClientsDoNotRepeatCallsOfEngines(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(context.Context, parallaxpb.ClientServiceClient) (metadata.MD, error){
		"SendMessage": func(ctx context.Context, c parallaxpb.ClientServiceClient) (metadata.MD, error) {
			stream, err := c.SendMessage(ctx, &parallaxpb.ClientMessageRequest{SessionId: "s", Content: "hello"})
			for err == nil {
				_, err = stream.Recv()
			}
			return stream.Trailer(), err
		},
		"ListSessions": func(ctx context.Context, c parallaxpb.ClientServiceClient) (trailer metadata.MD, err error) {
			_, err = c.ListSessions(ctx, &parallaxpb.ListSessionsRequest{}, grpc.Trailer(&trailer))
			return trailer, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			dying := gatewaytest.Scripted(t, func(*rawhttp2.Conn, uint32) bool {
				calls.Add(1)
				return false
			})
			shared, _ := shareEngines(t, nil)
			g := gatewaytest.Start(t, gatewaytest.Options{Engines: shared,
				Fleets: []gatewaytest.Fleet{{Capability: "engine-1",
					Services: []string{"openparallax.v1.ClientService"}, Backends: []string{dying}, Unprobed: true,
					Protocol: &guard.Settings{Buffer: 4 << 20}}}})
			conn, err := clienttest.NewConn("passthrough:///"+g.Addr,
				grpc.WithTransportCredentials(insecure.NewCredentials()), clienttest.Retrying())
			check.Must(t, err)
			check.Cleanup(t, func() { _ = conn.Close() })
			trailer, err := ask(patient(t), parallaxpb.NewClientServiceClient(conn))
			pushback := trailer.Get("grpc-retry-pushback-ms")
			if n := calls.Load(); n != 1 || err == nil || len(pushback) != 1 || pushback[0] != "-1" {
				t.Errorf("%d calls, %v, pushback %q", n, err, pushback)
			}
			checkProgress(t, err, false)
		})
	}
}
