package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/frontdoor/health"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/hosts"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestDrainLetsCallsFinish: calls that run when the gateway begins to stop finish, at every door.
func TestDrainLetsCallsFinish(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Live)
	results := make(chan error, 5)
	run := func(what string, call func() error) {
		go func() {
			err := call()
			if err != nil {
				err = fmt.Errorf("%s: %w", what, err)
			}
			results <- err
		}()
	}
	run("invoke", func() error { return second(f.client.Invoke(t.Context(), request(gatewaytest.Block, `{}`))) })
	run("stream", func() error { return second(f.client.StreamInvoke(t.Context(), request(gatewaytest.Block, `{}`))) })
	for _, protocol := range protocols {
		client := protocol.client(f.gateway, t)
		run(protocol.name, func() error {
			resp, err := client.Post(f.gateway.URL("/v1/capabilities/caps/invoke"), "application/json",
				strings.NewReader(`{"tool_name":"block"}`))
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if string(body) != `{"result":"released"}`+"\n" {
				err = fmt.Errorf("%s %s %w", resp.Status, body, err)
			}
			return err
		})
	}
	upload, err := docpb.NewCapabilityClient(f.conn).UploadInputArtifact(to(t.Context(), "caps")) // translated
	check.Must(t, err)
	check.Must(t, upload.Send(&docpb.UploadInputArtifactChunk{Filename: "f", Data: []byte("a")}))
	for range 4 {
		check.Received(t, f.capability.Blocked(), "the calls")
	}
	f.capability.WaitSeen(t, 5)

	f.gateway.Drain()
	f.gateway.Log.Wait(t, `"msg":"draining","delay":"`)
	f.gateway.Log.Wait(t, `"msg":"waiting for calls","fleets":[{"capability":"caps","calls":5}]`)
	if code, body := f.gateway.Admin(t, "/readyz"); code != http.StatusServiceUnavailable ||
		!strings.Contains(body, `"draining":true`) ||
		!strings.Contains(body, `"waiting":[{"capability":"caps","calls":5}]`) {
		t.Errorf("/readyz: %d %s", code, body)
	}
	if code, _ := f.gateway.Admin(t, "/livez"); code != http.StatusOK {
		t.Errorf("/livez: %d", code)
	}
	if err := upload.Send(&docpb.UploadInputArtifactChunk{Data: []byte("b")}); err != nil {
		t.Errorf("upload: %v", err)
	}
	f.capability.Release()
	for range 4 {
		if err := check.Received(t, results, "the result"); err != nil {
			t.Error(err)
		}
	}
	if reply, err := upload.CloseAndRecv(); err != nil || reply.GetError() != "" {
		t.Errorf("upload: %v, %v", reply, err)
	}
	f.gateway.Stop(t)
	f.backend.WaitIdle(t)
}

// TestDrainDelay: calls are still accepted while load balancers notice that the gateway is not ready. The test
// ends the delay itself, so that no check depends on timing.
func TestDrainDelay(t *testing.T) {
	t.Parallel()
	const delay = 100 * time.Millisecond
	over, proceed := make(chan time.Time, 1), make(chan struct{})
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps",
			Backends: []string{gatewaytest.NewCapability("b1").Serve(t, call.Doc).Addr}}},
		Drain:   &gateway.Drain{Delay: delay, Timeout: check.Patience},
		Leaving: func() { over <- time.Now(); <-proceed },
	})
	proceeds := sync.OnceFunc(func() { close(proceed) })
	check.Cleanup(t, proceeds)
	conn := g.Conn(t)
	began := time.Now()
	g.Drain()
	if took := check.Received(t, over, "the end of the delay").Sub(began); took < delay {
		t.Errorf("the delay took %v, want %v at least", took, delay)
	}
	if _, err := gatewaytest.NewClient(conn, call.Doc).Invoke(t.Context(),
		request(gatewaytest.Echo, `{}`)); err != nil {
		t.Errorf("a call during the delay: %v", err)
	}
	if _, err := gatewaytest.NewClient(g.Conn(t), call.Doc).Invoke(t.Context(),
		request(gatewaytest.Echo, `{}`)); err != nil {
		t.Errorf("a call over a new connection during the delay: %v", err)
	}
	healthy, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || healthy.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("grpc.health.v1: %v, %v", healthy, err)
	}
	if ready, _ := g.Admin(t, "/readyz"); ready != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d", ready)
	}
	if got := healthOf(t, g, g.HTTP2(t), http.MethodGet); got != "503 leaving\n" {
		t.Errorf("the health at the public port: %q", got)
	}
	proceeds()
	g.Stop(t)
}

// TestDrainTimeout: calls that take too long are ended with an error.
func TestDrainTimeout(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("b1")
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{capability.Serve(t, call.Doc).Addr}}},
		Drain:  &gateway.Drain{Timeout: 50 * time.Millisecond},
	})
	client := gatewaytest.NewClient(g.Conn(t), call.Live)
	ended := make(chan error, 1)
	go func() { ended <- invokeBlock(client)(context.WithoutCancel(t.Context())) }()
	check.Received(t, capability.Blocked(), "the call")
	g.Stop(t)
	if err := check.Received(t, ended, "the end of the call"); status.Code(err) != codes.Unavailable ||
		errorInfo(err).GetReason() != "DRAINING" {
		t.Errorf("got %v, %v", err, errorInfo(err))
	}
	if lines := g.Log.Calls(t, 1); len(lines) != 1 || lines[0].Text("failure") != "DRAINING" {
		t.Errorf("logged %v", lines)
	}
	g.Log.Wait(t, "calls were cut off")
}

// TestHealthOfAReplica: load balancers request health at the public port by address, without a credential.
func TestHealthOfAReplica(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps",
			Backends: []string{gatewaytest.NewCapability("b1").Serve(t, call.Doc).Addr}}},
		Authenticator: newKeyring().authenticator(),
		Hosts:         web.Names{Public: hosts.New([]string{"capgate.example.com"})},
	})
	for name, client := range map[string]*http.Client{"HTTP/1.1": g.HTTP1(t), "HTTP/2": g.HTTP2(t)} {
		for method, want := range map[string]string{http.MethodGet: "200 ok\n", http.MethodHead: "200 "} {
			if got := healthOf(t, g, client, method); got != want {
				t.Errorf("%s over %s: %q, want %q", method, name, got, want)
			}
		}
		if got := healthOf(t, g, client, http.MethodPost); !strings.HasPrefix(got, "4") {
			t.Errorf("POST over %s: %q", name, got)
		}
	}
}

// healthOf returns status and body of the public port's health.
func healthOf(t *testing.T, g *gatewaytest.Gateway, client *http.Client, method string) string {
	t.Helper()
	resp, body := clienttest.Send(t, client, method, g.URL(health.Path), "", "Host", "10.0.0.7")
	return fmt.Sprintf("%d %s", resp.StatusCode, body)
}
