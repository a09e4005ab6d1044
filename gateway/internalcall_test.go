package gateway_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
)

// TestInternalCallsPass: the gateway's own calls are not blocked by a policy, pass the filter chain like all
// calls, and are recorded.
func TestInternalCallsPass(t *testing.T) {
	t.Parallel()
	for _, dialect := range []call.Dialect{call.Doc, call.Live} {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			c := gatewaytest.NewCapability("b1")
			g := gatewaytest.Start(t, gatewaytest.Options{
				Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{c.Serve(t, dialect).Addr},
					Affinity: sticky}},
				Policy: blockAll(),
			})
			req := request(gatewaytest.Echo, `{"a":1}`)
			req.SessionId = "discovery-caps-1"
			resp, err := g.Invoke(t.Context(), "caps", req)
			if err != nil || string(resp.GetResultJson()) != `{"a":1}` {
				t.Fatal(resp, err)
			}
			seen := c.Seen()
			if len(seen) != 1 || seen[0].Request.GetSessionId() != "discovery-caps-1" ||
				seen[0].Metadata.Get("x-capgate-ticket") != nil {
				t.Errorf("the backend saw %+v", seen)
			}
			if lines := g.Log.Calls(t, 1); lines[0]["tool"] != gatewaytest.Echo {
				t.Errorf("recorded as %v", lines)
			}
			if n := g.Metrics(t)[`capgate_affinity_known{what="sessions"}`]; n != 0 {
				t.Errorf("%v sessions are pinned", n)
			}
		})
	}
}

// TestInternalCallsCannotBeForged: a caller that sends the mark of the gateway's own calls is an ordinary caller.
func TestInternalCallsCannotBeForged(t *testing.T) {
	t.Parallel()
	c := gatewaytest.NewCapability("b1")
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{c.Serve(t, call.Doc).Addr}}},
		Policy: blockAll(),
	})
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	for _, ticket := range []string{"", "ours", "AAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "x-capgate-ticket", ticket, "x-capgate-ticket", "")
		if _, err := client.Invoke(ctx, request(gatewaytest.Echo, `{}`)); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%q: %v", ticket, err)
		}
	}
	if seen := c.Seen(); len(seen) != 0 {
		t.Errorf("the backend saw %+v", seen)
	}
}

// blockAll has no rules and no manifests.
func blockAll() policy.Options { return policy.Options{Source: catalog.New(catalog.Options{})} }
