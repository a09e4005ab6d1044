package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/hosts"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// askAs makes a request with a host name, like a browser for which the name resolves to the port's address.
func askAs(t *testing.T, client *http.Client, url, host string) (int, string) {
	t.Helper()
	resp, body := clienttest.Send(t, client, http.MethodGet, url, "", "Host", host)
	return resp.StatusCode, body
}

// TestHosts: a page whose name was rebound to the address of either port is rejected. Loopback names, addresses
// and configured names are accepted.
func TestHosts(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps",
			Backends: []string{gatewaytest.NewCapability("b1").Serve(t, call.Doc).Addr}}},
		Hosts: web.Names{
			Public: hosts.New([]string{"gate.example.com", "*.caps.example.com"}).WithAddresses(),
			Admin:  hosts.New([]string{"ops.example.com"}),
		},
	})
	for _, port := range []struct{ name, url, addr, known, foreign string }{
		{"public", g.URL("/docs/errors"), g.Addr, "weather.caps.example.com,gate.example.com:8080,192.0.2.7",
			"ops.example.com"},
		{"operators", "http://" + g.AdminAddr + "/metrics", g.AdminAddr, "ops.example.com",
			"gate.example.com,192.0.2.7,10.0.0.1:8081"},
	} {
		for protocol, client := range map[string]*http.Client{"HTTP/1.1": g.HTTP1(t), "HTTP/2": g.HTTP2(t)} {
			own := port.addr + ",localhost,LOCALHOST.:8080,a.localhost,127.0.0.7,[::1]:80," + port.known
			for host := range strings.SplitSeq(own, ",") {
				if code, body := askAs(t, client, port.url, host); code != http.StatusOK {
					t.Errorf("%s, %s, %s: %d %.200s", port.name, protocol, host, code, body)
				}
			}
			foreign := "evil.example,evil.example:8081,localhost.evil.example,127.0.0.1.evil.example," + port.foreign
			for host := range strings.SplitSeq(foreign, ",") {
				code, body := askAs(t, client, port.url, host)
				if code != http.StatusMisdirectedRequest || !strings.Contains(body, "HOST_UNKNOWN") ||
					!strings.Contains(body, "hosts") {
					t.Errorf("%s, %s, %s: %d %.200s", port.name, protocol, host, code, body)
				}
			}
		}
	}
}

// TestHostsOfGRPC: native gRPC may use any name, since no page can send it. Requests without te, which a page
// could send through a proxy that speaks HTTP/2, may not.
func TestHostsOfGRPC(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps",
			Backends: []string{gatewaytest.NewCapability("b1").Serve(t, call.Doc).Addr}}},
	})
	client := gatewaytest.NewClient(g.Conn(t, grpc.WithAuthority("capgate:8080")), call.Doc)
	if _, err := client.Invoke(to(t.Context(), "caps"), request(gatewaytest.Echo, `{}`)); err != nil {
		t.Errorf("a gRPC client: %v", err)
	}
	for _, te := range []string{"", "trailers"} {
		peer, err := rawhttp2.Dial(g.Addr)
		check.Must(t, err)
		fields := []string{":method", "POST", ":scheme", "http", ":authority", "evil.example", ":path",
			"/grpc.health.v1.Health/Check", "content-type", "application/grpc"}
		want := "7" // PERMISSION_DENIED
		if te != "" {
			fields, want = append(fields, "te", te), "0"
		}
		err = errors.Join(peer.Greet(), peer.Write(rawhttp2.Headers(1, false, peer.Block(fields...)),
			rawhttp2.Data(1, true, rawhttp2.Message(nil))))
		check.Must(t, err)
		if got, err := peer.WaitResponse(1); err != nil || got.Status() != want {
			t.Errorf("te %q: %v, %v", te, got, err)
		}
		_ = peer.Close()
	}
}

// TestHostsWithTenants: where every request needs a credential, host names are not checked.
func TestHostsWithTenants(t *testing.T) {
	t.Parallel()
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps",
			Backends: []string{gatewaytest.NewCapability("b1").Serve(t, call.Doc).Addr}}},
		Authenticator: noCredential{},
	})
	if code, body := askAs(t, g.HTTP1(t), g.URL("/v1/capabilities"),
		"gate.example.com"); code != http.StatusUnauthorized {
		t.Errorf("got %d %s", code, body)
	}
}

type noCredential struct{}

func (noCredential) Lookup(tenant.Credentials) (tenant.Identity, bool, *call.Refusal) {
	return tenant.Identity{}, true, &call.Refusal{Kind: call.Unauthenticated, Reason: "CREDENTIAL_MISSING"}
}

func (noCredential) Authenticate(context.Context, tenant.Credentials) (tenant.Identity, *call.Refusal) {
	return tenant.Identity{}, nil
}
