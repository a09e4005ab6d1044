package gateway_test

import (
	"context"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// stepper is a capability whose streams send messages as the test says.
type stepper struct {
	docpb.UnimplementedCapabilityServer
	say  chan string   // for the only stream
	left chan struct{} // closed when its caller is gone
}

func (*stepper) Healthcheck(context.Context, *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	return &docpb.HealthResponse{Ready: true}, nil
}

func (s *stepper) StreamInvoke(_ *docpb.InvokeRequest, stream grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
	if err := stream.SendHeader(nil); err != nil {
		return err
	}
	for {
		select {
		case text, ok := <-s.say:
			if !ok {
				return nil
			}
			if err := stream.Send(&docpb.InvokeChunk{Data: []byte(text)}); err != nil {
				return err
			}
		case <-stream.Context().Done():
			close(s.left)
			return stream.Context().Err()
		}
	}
}

// eachStepper starts a stream with every protocol, over both versions of HTTP, and reads its first message.
func eachStepper(t *testing.T, test func(t *testing.T, s *stepper, b *gatewaytest.Backend,
	stream *connect.ServerStreamForClient[docpb.InvokeChunk], leave func())) {
	t.Parallel()
	for _, d := range webDialects {
		for _, p := range protocols {
			if d.name == "gRPC" && p.major < 2 {
				continue
			}
			t.Run(d.name+" over "+p.name, func(t *testing.T) {
				t.Parallel()
				s := &stepper{say: make(chan string), left: make(chan struct{})}
				b := gatewaytest.Serve(t, func(r *grpc.Server) { docpb.RegisterCapabilityServer(r, s) })
				g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps",
					Backends: []string{b.Addr}}}})
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				stream, err := newWebClient(p.client(g, t), g.URL(""), d.options...).stream.CallServerStream(ctx,
					connect.NewRequest(request("any", "{}")))
				check.Must(t, err)
				s.say <- "one"
				if !stream.Receive() || string(stream.Msg().GetData()) != "one" {
					t.Fatal("the first message did not arrive before the second was sent:", stream.Err())
				}
				test(t, s, b, stream, leave)
			})
		}
	}
}

func TestWebStreamsArriveMessageByMessage(t *testing.T) {
	eachStepper(t, func(t *testing.T, s *stepper, _ *gatewaytest.Backend,
		stream *connect.ServerStreamForClient[docpb.InvokeChunk], _ func()) {
		s.say <- "two"
		if !stream.Receive() || string(stream.Msg().GetData()) != "two" {
			t.Fatal("the second message:", stream.Err())
		}
		close(s.say)
		if stream.Receive() || stream.Err() != nil {
			t.Error("the stream ends with an error:", stream.Err())
		}
	})
}

func TestABackendLearnsThatAWebClientLeft(t *testing.T) {
	eachStepper(t, func(t *testing.T, s *stepper, _ *gatewaytest.Backend,
		_ *connect.ServerStreamForClient[docpb.InvokeChunk], leave func()) {
		leave()
		check.Received(t, s.left, "the backend to know that its caller is gone")
	})
}

func TestABrokenStreamEndsWithAnErrorForWebClients(t *testing.T) {
	eachStepper(t, func(t *testing.T, _ *stepper, b *gatewaytest.Backend,
		stream *connect.ServerStreamForClient[docpb.InvokeChunk], _ func()) {
		b.Stop()
		if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeUnavailable ||
			reasonOf(stream.Err()) != "UPSTREAM_LOST" {
			t.Errorf("%v, reason %q", stream.Err(), reasonOf(stream.Err()))
		}
	})
}
