package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestTranslatedCallsLeaveRoom: however many translated or HTTP calls a tenant has, there is room for other
// tenants.
func TestTranslatedCallsLeaveRoom(t *testing.T) {
	t.Parallel()
	f, ring, shedder := loadedFront(t, 1<<20, call.Doc, call.Legacy)
	acme, leave := context.WithCancel(bearer(t.Context(), ring.credentials["acme"]))
	defer leave()
	for range 3 { // more than a connection may hold
		f.client = gatewaytest.NewClient(f.gateway.Conn(t), call.Doc)
		if _, shed := flood(acme, t, f, 500); shed > 0 {
			t.Fatalf("%d calls were rejected", shed)
		}
	}
	globex := ring.credentials["globex"]
	if _, err := f.client.Invoke(bearer(t.Context(), globex), request(gatewaytest.Echo, `{}`)); err != nil {
		t.Error(err)
	}
	if resp, body := post(t, clienttest.HTTP, f.gateway, "caps", `{"tool_name":"echo","args":{}}`, "x-api-key",
		globex); resp.StatusCode != http.StatusOK {
		t.Error(resp.Status, body)
	}
	leave()
	waitIdle(t, shedder)
}

// TestFrontDoorsAreNotBoundAsOneConnection: the memory limit of one client connection does not limit all callers of
// the front doors together.
func TestFrontDoorsAreNotBoundAsOneConnection(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("b1").Serve(t, call.Doc)
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{backend.Addr}}},
		Relay:  relay.Config{Memory: relay.Memory{MaxConnBuffered: 128 << 10}},
	})
	args := `{"a":"` + string(file(1<<20).Data) + `"}`
	_, err := gatewaytest.NewClient(g.Conn(t), call.Doc).Invoke(t.Context(), request(gatewaytest.Echo, args))
	wants(t, err, codes.ResourceExhausted, "MEMORY_EXCEEDED")
	if resp, body := post(t, clienttest.HTTP, g, "caps",
		`{"tool_name":"echo","args":`+args+`}`); resp.StatusCode != http.StatusOK {
		t.Error(resp.Status, body)
	}
}

// gatedAuth is an Authenticator that reports each request and waits for the test before it
// authenticates it.
type gatedAuth struct {
	stuck
	asked chan struct{}
}

func (gatedAuth) Lookup(tenant.Credentials) (who tenant.Identity, known bool, refusal *call.Refusal) {
	return who, false, nil
}

func (a gatedAuth) Authenticate(ctx context.Context, _ tenant.Credentials) (tenant.Identity, *call.Refusal) {
	a.asked <- struct{}{}
	return tenant.Identity{Tenant: "acme", Key: "k", Scopes: tenant.Invoke}, a.refusal(ctx)
}

// TestRequestsHoldWhileTheirCredentialsAreLookedUp: the memory of an HTTP/1.1 request is charged to its address
// while its credential is being looked up, and released afterwards.
func TestRequestsHoldWhileTheirCredentialsAreLookedUp(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("b1").Serve(t, call.Doc)
	by := gatedAuth{stuck{make(chan struct{})}, make(chan struct{}, 1)}
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets:        []gatewaytest.Fleet{{Capability: "caps", Backends: []string{backend.Addr}}},
		Authenticator: by,
	})
	const pool = `capgate_memory_bytes{pool="strangers"}`
	before, ended := g.Metrics(t)[pool], make(chan struct{})
	header := strings.Repeat("x", 4<<10)
	go func() {
		defer close(ended)
		resp, body := post(t, clienttest.HTTP, g, "caps", `{"tool_name":"echo"}`, "Authorization", "Bearer secret",
			"X-Long", header)
		if resp.StatusCode != http.StatusOK {
			t.Error(resp.Status, body)
		}
	}()
	check.Received(t, by.asked, "the question")
	if held := g.Metrics(t)[pool] - before; held < float64(len(header)) {
		t.Errorf("%v bytes are held meanwhile", held)
	}
	close(by.gate)
	check.Received(t, ended, "the end of the call")
	if held := g.Metrics(t)[pool] - before; held != 0 {
		t.Errorf("%v bytes are held in the end", held)
	}
}
