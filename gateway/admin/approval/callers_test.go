package approval_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy/approvals"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// public returns a gateway that has the public port's service.
func (p *ports) public(t *testing.T) *gatewaytest.Gateway {
	t.Helper()
	backend := gatewaytest.NewCapability("b1").Serve(t, call.Doc)
	return gatewaytest.Start(t, gatewaytest.Options{
		Fleets:   []gatewaytest.Fleet{{Capability: "caps", Backends: []string{backend.Addr}}},
		Services: p.service.Register,
		Leaving:  p.service.Leave,
	})
}

// TestPublicPort: the gateway determines the caller, over JSON and over gRPC.
func TestPublicPort(t *testing.T) {
	t.Parallel()
	p := serve(t)
	g := p.public(t)
	ann, bob := p.ask(t, approvals.Request{User: "ann"}), p.ask(t, approvals.Request{User: "bob"})
	forged := "tenant=default&user=bob"
	for _, client := range []*http.Client{g.HTTP1(t), g.HTTP2(t)} {
		for _, test := range []struct {
			method, path, user, body string
			status                   int
			has, not                 string
		}{
			{"GET", "", "ann", "", 200, ann.ID, bob.ID},
			{"GET", "", "", "", 200, bob.ID, ""},
			{"GET", "?user=bob", "ann", "", 200, `"approvals":[]`, bob.ID},
			{"GET", "?page_size=x", "ann", "", 400, "INVALID_QUERY", ""},
			{"GET", "?page_size=101", "ann", "", 400, "APPROVAL_INVALID", ""},
			{"GET", "/" + ann.ID, "ann", "", 200, `"state":"pending"`, ""},
			{"GET", "/" + bob.ID, "ann", "", 404, "APPROVAL_UNKNOWN", "bob"},
			{"GET", "/" + ann.ID + "?tenant=acme", "ann", "", 404, "APPROVAL_UNKNOWN", ""},
			{"POST", "/" + ann.ID + "/approve", "ann", "", 403, "APPROVER_REQUIRED", ""},
			{"POST", "/" + ann.ID + "/approve", "", `{"by":"ann","remember":"always"}`, 403, "APPROVER_REQUIRED", ""},
			{"POST", "/" + ann.ID + "/deny", "ann", `{}`, 403, "APPROVER_REQUIRED", ""},
			{"POST", "/" + ann.ID + "/deny", "ann", `{"who":1}`, 400, "INVALID_BODY", ""},
			{"POST", "/events", "ann", "", 405, "METHOD_NOT_ALLOWED", ""},
		} {
			req, err := http.NewRequestWithContext(t.Context(), test.method, g.URL("/v1/approvals"+test.path),
				strings.NewReader(test.body))
			check.Must(t, err)
			req.Header.Set("x-capgate-caller", forged)
			req.Header.Set("Grpc-Metadata-"+"x-capgate-caller", forged)
			if test.user != "" {
				req.Header.Set("x-user-id", test.user)
			}
			resp, err := client.Do(req)
			check.Must(t, err)
			body, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != test.status || !strings.Contains(string(body), test.has) ||
				test.not != "" && strings.Contains(string(body), test.not) {
				t.Errorf("%s %s by %q: %d %s, %v", test.method, test.path, test.user, resp.StatusCode, body, err)
			}
		}
	}
	client := capgatepb.NewApprovalsClient(g.Conn(t))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-user-id", "ann", "x-capgate-caller", forged)
	if resp, err := client.ListApprovals(ctx, &capgatepb.ListApprovalsRequest{}); err != nil ||
		len(resp.GetApprovals()) != 1 || resp.GetApprovals()[0].GetId() != ann.ID {
		t.Errorf("over gRPC: %v, %v", resp, err)
	}
	_, err := client.Approve(ctx, &capgatepb.ApproveRequest{ApprovalId: ann.ID})
	refusal(t, "approve over gRPC", err, codes.PermissionDenied, "APPROVER_REQUIRED")
	if now, err := p.backing.Get(t.Context(), ann.Tenant, ann.ID); err != nil || now.State != approvals.Pending {
		t.Errorf("%v, %v", now.State, err)
	}
}

// TestPublicEvents: a caller gets its own events, can resume, and does not keep the gateway from stopping.
func TestPublicEvents(t *testing.T) {
	t.Parallel()
	p := serve(t)
	g := p.public(t)
	var open []*sse
	for name, client := range map[string]*http.Client{"HTTP/1.1": g.HTTP1(t), "HTTP/2": g.HTTP2(t)} {
		client.Timeout = 0
		as := *client
		as.Transport = clienttest.Bound(named{client.Transport, "ann"})
		s := source(t.Context(), t, &as, g.URL("/v1/approvals/events"), "")
		for fields := map[string]string{}; fields["id"] == ""; { // from here on
			fields, _ = s.block()
		}
		p.ask(t, approvals.Request{User: "bob", Tool: name})
		a := p.ask(t, approvals.Request{User: "ann", Tool: name})
		if e := s.next(); e.kind != "asked" || e.data["id"] != a.ID || e.data["user"] != "ann" {
			t.Errorf("%s: %v", name, e)
		}
		if _, err := p.client.Approve(t.Context(), &capgatepb.ApproveRequest{ApprovalId: a.ID}); err != nil {
			t.Fatal(err)
		}
		if e := source(t.Context(), t, &as, g.URL("/v1/approvals/events"), s.last).next(); e.kind != "approved" ||
			e.data["id"] != a.ID {
			t.Errorf("%s: %v", name, e)
		}
		open = append(open, s)
	}
	client := g.HTTP1(t)
	for path, want := range map[string]int{"?last_event_id=x": 400, "?tenant=acme": 404} {
		resp, err := client.Get(g.URL("/v1/approvals/events" + path))
		check.Must(t, err)
		if _ = resp.Body.Close(); resp.StatusCode != want ||
			resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %v", path, resp.StatusCode, resp.Header)
		}
	}
	g.Drain()
	check.Received(t, g.Stopped(), "the gateway to stop")
	for _, s := range open {
		for ok := true; ok; _, ok = s.block() {
		}
	}
}

// named makes requests on behalf of a user.
type named struct {
	http.RoundTripper
	user string
}

func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("x-user-id", n.user)
	return n.RoundTripper.RoundTrip(r)
}
