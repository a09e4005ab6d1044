package gateway_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// seenIDs holds the request ids that a client found in responses; "" means none.
type seenIDs struct {
	http.RoundTripper
	last string
}

func (s *seenIDs) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := s.RoundTripper.RoundTrip(r)
	if err == nil {
		s.last = resp.Header.Get("X-Request-Id")
	}
	return resp, err
}

// TestLinesNameProtocolAndRequestID: the log line of a call at any door, and of a request that did not become a
// call, has its protocol and its id. The response and the backend get the same id.
func TestLinesNameProtocolAndRequestID(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	grpc := f.gateway.Conn(t)
	web := func(client *http.Client, o ...connect.ClientOption) error {
		req := connect.NewRequest(request(gatewaytest.Echo, `{}`))
		return second(newWebClient(client, f.gateway.URL(""), o...).invoke.CallUnary(t.Context(), req))
	}
	get := func(client *http.Client, method, path, contentType string) error {
		req, err := http.NewRequestWithContext(t.Context(), method, f.gateway.URL(path), strings.NewReader(`{}`))
		check.Must(t, err)
		req.Header.Set("Content-Type", contentType)
		resp, err := client.Do(req)
		check.Must(t, err)
		return resp.Body.Close()
	}
	for _, test := range []struct {
		name, protocol string
		run            func(*http.Client) error
	}{
		{"gRPC", "grpc", func(*http.Client) error {
			return second(docpb.NewCapabilityClient(grpc).Invoke(t.Context(), request(gatewaytest.Echo, `{}`)))
		}},
		{"gRPC by connect-go", "grpc", func(c *http.Client) error { return web(c, connect.WithGRPC()) }},
		{"gRPC-Web", "grpc-web", func(c *http.Client) error { return web(c, connect.WithGRPCWeb()) }},
		{"Connect", "connect", func(c *http.Client) error { return web(c) }},
		{"Connect with JSON", "connect", func(c *http.Client) error { return web(c, connect.WithProtoJSON()) }},
		{"JSON", "json", func(c *http.Client) error {
			return get(c, http.MethodPost, "/v1/capabilities/caps/tools/echo:invoke", "application/json")
		}},
		{"a body that is none", "json", func(c *http.Client) error {
			return get(c, http.MethodPost, "/v1/capabilities/caps/invoke", "text/plain")
		}},
		{"a type of neither protocol", "connect", func(c *http.Client) error {
			return get(c, http.MethodPost, docpb.Capability_Invoke_FullMethodName, "text/plain")
		}},
	} {
		before, calls := len(f.gateway.Log.Calls(t, 0)), len(f.capability.Seen())
		ids := &seenIDs{RoundTripper: f.gateway.HTTP2(t).Transport}
		if err := test.run(&http.Client{Transport: ids}); err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		line := f.gateway.Log.Calls(t, before+1)[before]
		id := line.Text("request_id")
		if line.Text("protocol") != test.protocol || id == "" || ids.last != "" && ids.last != id {
			t.Errorf("%s: the response has %q, the line is %v", test.name, ids.last, line)
		}
		if seen := f.capability.Seen(); len(seen) > calls {
			if got := seen[calls].Metadata.Get("x-request-id"); !slices.Equal(got, []string{id}) {
				t.Errorf("%s: the backend got %q, the line is %v", test.name, got, line)
			}
		}
	}
}

// TestLinesOfMCP: a call over MCP has its protocol and its id, and keeps an id that its caller sets.
func TestLinesOfMCP(t *testing.T) {
	t.Parallel()
	f := startMCP(t)
	before := len(f.gateway.Log.Calls(t, 0))
	check.Must(t, second(callEcho(t, f.session(t, revisions[0], nil), "a")))
	line := f.gateway.Log.Calls(t, before+1)[before]
	if line.Text("protocol") != "mcp" || line.Text("request_id") == "" {
		t.Errorf("got %v", line)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-request-id", "mine")
	check.Must(t, second(docpb.NewCapabilityClient(f.gateway.Conn(t)).Invoke(ctx, request(gatewaytest.Echo, `{}`))))
	if line = f.gateway.Log.Calls(t, before+2)[before+1]; line.Text("request_id") != "mine" {
		t.Errorf("got %v", line)
	}
}

// TestIDsOfCallsDiffer: ids that the gateway gives to calls differ.
func TestIDsOfCallsDiffer(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Live)
	ids := map[string]bool{}
	for range 20 {
		check.Must(t, second(f.client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))))
	}
	for _, line := range f.gateway.Log.Calls(t, 20) {
		if id := line.Text("request_id"); len(id) == 26 {
			ids[id] = true
		}
	}
	if len(ids) != 20 {
		t.Errorf("got %d ids for 20 calls", len(ids))
	}
}
