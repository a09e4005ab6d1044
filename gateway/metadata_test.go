package gateway_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

func TestMetadataReachesTheBackend(t *testing.T) {
	eachPair(t, func(t *testing.T, client, backend call.Dialect) {
		f := startFront(t, client, backend)
		sent := metadata.Pairs(
			"x-capability-id", "caps", "x-request-id", "r", "x-session-id", "s", "authorization", "Bearer token",
			"traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
			"many", "one", "many", "two", "many", "",
			"raw-bin", "\x00\x01\xfe\xff", "raw-bin", "", "long", strings.Repeat("l", 10_000),
			"x-tenant-id", "mallory", "x-user-id", "mallory", "x-agent-id", "mallory",
			"x-capgate-ticket", "forged",
		)
		ctx := metadata.NewOutgoingContext(t.Context(), sent)
		if _, err := f.client.Invoke(ctx, request(gatewaytest.Echo, `{}`)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.client.StreamInvoke(ctx, request(gatewaytest.Echo, `{}`)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.client.Upload(ctx, gatewaytest.File{Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		seen := f.capability.Seen()
		if len(seen) != 3 {
			t.Fatalf("%d calls", len(seen))
		}
		for _, s := range seen {
			for name, values := range sent {
				if slices.Contains([]string{"x-tenant-id", "x-user-id", "x-agent-id", "x-capgate-ticket"}, name) {
					values = nil
				}
				if got := s.Metadata.Get(name); !slices.Equal(got, values) {
					t.Errorf("%s: %s is %q, want %q", s.Path, name, got, values)
				}
			}
		}
		if lines := f.gateway.Log.Calls(t, 3); len(lines) != 3 {
			t.Errorf("%d lines for 3 calls", len(lines))
		}
	})
}

func TestTheBackendGetsTheDeadline(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	if _, err := f.client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`)); err != nil {
		t.Fatal(err)
	}
	if left := f.capability.Seen()[0].Left; left <= 100*time.Second || left > 120*time.Second {
		t.Errorf("the backend has %v for a call whose caller named no deadline, want nearly 120s", left)
	}
}

func TestRESTHeaders(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Live)
	resp, body := post(t, f.gateway.HTTP2(t), f.gateway, "caps", `{"tool_name":"echo","session_id":"s"}`,
		"X-Request-Id", "r", "X-Session-Id", "s", "Authorization", "Bearer token", "Cookie", "c=1", "X-User-Id",
		"mallory", "X-Agent-Id", "mallory", "X-Tenant-Id", "mallory", "Grpc-Metadata-X-User-Id", "mallory",
		"Request-Timeout", "70")
	if resp.StatusCode != 200 {
		t.Fatal(resp.Status, body)
	}
	seen := f.capability.Seen()[0]
	for name, want := range map[string]string{
		"x-request-id": "r", "x-session-id": "s", "authorization": "Bearer token",
		"cookie": "", "x-user-id": "", "x-agent-id": "", "x-tenant-id": "", "grpc-metadata-x-user-id": "",
	} {
		if got := strings.Join(seen.Metadata.Get(name), "|"); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if seen.Request.GetSessionId() != "s" || seen.Request.GetCapabilityId() != "caps" {
		t.Errorf("request %v", seen.Request)
	}
	if seen.Left <= 50*time.Second || seen.Left > 70*time.Second {
		t.Errorf("the backend has %v, want nearly 70s", seen.Left)
	}
}
