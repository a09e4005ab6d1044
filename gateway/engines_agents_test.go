package gateway_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/examples/openparallax/engine"
	"github.com/capgate/capgate/gateway"
	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
)

// session returns an agent's stream, opened like published agents do: without waiting for a ready connection.
func session(t *testing.T, g *gatewaytest.Gateway) (parallaxpb.AgentService_RunSessionClient, error) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), check.Patience)
	check.Cleanup(t, stop)
	stream, err := parallaxpb.NewAgentServiceClient(g.Conn(t)).RunSession(ctx)
	if err != nil {
		return nil, err
	}
	err = stream.Send(&parallaxpb.AgentEvent{Event: &parallaxpb.AgentEvent_Ready{Ready: &parallaxpb.AgentReady{
		AgentId: "Atlas:token"}}})
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	first, err := stream.Recv()
	if err == nil && first.GetInitialToolDefs() == nil {
		t.Errorf("the first directive: %v", first)
	}
	return stream, err
}

// TestAgentsOfAGatewayThatStops: agents' streams last as long as the drain and do not end with OK, after which
// engines do not restart their agent. The error names their fleet.
func TestAgentsOfAGatewayThatStops(t *testing.T) {
	t.Parallel()
	const timeout = 200 * time.Millisecond
	e := startEngines(t, &guard.Settings{Queue: 1}, engine.Config{}, func(o *gatewaytest.Options) {
		o.Drain = &gateway.Drain{Timeout: timeout}
	})
	stream, err := session(t, e.gateway)
	check.Must(t, err)
	began := time.Now()
	e.gateway.Drain()
	if d, err := stream.Recv(); status.Code(err) != codes.Unavailable || time.Since(began) < timeout {
		t.Errorf("the agent got %v, %v after %v", d, err, time.Since(began))
	}
	e.gateway.Log.Wait(t, `"msg":"waiting for calls","fleets":[{"capability":"`)
	check.Received(t, e.gateway.Stopped(), "the gateway to stop")
}

// TestAgentsOfEnginesThatGo: agents' streams do not end with OK when their engine goes.
func TestAgentsOfEnginesThatGo(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.Serve(t, engine.New(engine.Config{}).Register)
	e := behind(t, backend.Addr, &guard.Settings{Queue: 1})
	stream, err := session(t, e.gateway)
	check.Must(t, err)
	backend.Stop()
	if d, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the agent got %v, %v", d, err)
	}
	_, err = session(t, e.gateway)
	if status.Code(err) != codes.Unavailable {
		t.Errorf("an agent without an engine got %v", err)
	}
}
