package gateway_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// However many clients stall their bodies, the next request is served.
func TestSlowBodiesDoNotDelayOtherRequests(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	const slow = 50
	for range slow {
		conn, err := net.Dial("tcp", f.gateway.Addr)
		check.Must(t, err)
		check.Cleanup(t, func() { _ = conn.Close() })
		check.Must(t, conn.SetDeadline(time.Now().Add(check.Patience)))
		if _, err := fmt.Fprintf(conn, "POST /v1/capabilities/caps/tools/echo HTTP/1.1\r\nHost: localhost\r\n"+
			"Content-Length: 100\r\nExpect: 100-continue\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(conn).ReadString('\n') // received when the gateway starts to wait
		if err != nil || !strings.Contains(line, "100 Continue") {
			t.Fatal(line, err)
		}
	}
	for _, p := range protocols {
		if resp, text := post(t, p.client(f.gateway, t), f.gateway, "caps",
			`{"tool_name":"echo"}`); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s %s", p.name, resp.Status, text)
		}
	}
}

// TestTooManyRequestsWait: a request that finds the queue full is rejected at once, and recorded.
func TestTooManyRequestsWait(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("b1")
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{
			{Capability: "caps", Backends: []string{capability.Serve(t, call.Doc).Addr}},
			{Capability: "old", Backends: []string{capability.Serve(t, call.Legacy).Addr}},
			{Capability: "weather", Backends: []string{capability.Serve(t, call.Doc).Addr}, Keyed: true},
		}, MaxWaiting: -1, Answers: gatewaytest.Answers(t, gatewaytest.OpenStore(t, "embedded"), idempotency.Options{}),
	})
	for i, p := range protocols {
		resp, text := post(t, p.client(g, t), g, "caps", `{"tool_name":"echo"}`)
		if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "OVERLOADED") ||
			resp.Header.Get("Retry-After") != "1" || resp.Header.Get("X-Request-Id") == "" {
			t.Errorf("%s: %s %v %s", p.name, resp.Status, resp.Header, text)
		}
		if line := g.Log.Calls(t, i+1)[i]; line["reason"] != "OVERLOADED" ||
			line["request_id"] != resp.Header.Get("X-Request-Id") {
			t.Errorf("%s: the log says %v", p.name, line)
		}
	}
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	_, err := client.Invoke(t.Context(), &docpb.InvokeRequest{CapabilityId: "old", ToolName: gatewaytest.Echo})
	wants(t, err, codes.Unavailable, "OVERLOADED") // it would have been translated
	_, _, err = keyedCall(t, client, "k", gatewaytest.Echo, "{}")
	wants(t, err, codes.Unavailable, "OVERLOADED")
	g.Log.Calls(t, len(protocols)+2)
	if got := g.Metrics(t)[`capgate_shed_total{tenant="default"}`]; got != float64(len(protocols)+2) {
		t.Errorf("%v are counted", got)
	}
}
