package gateway_test

import (
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/admin/approval"
	"github.com/capgate/capgate/gateway/builtin/listing"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/catalog"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// services returns a front with the gateway's own services.
func services(t *testing.T, ring *keyring, approver *approvals.Service) *gatewaytest.Gateway {
	t.Helper()
	known := catalog.New(catalog.Options{})
	known.Replace(map[string]catalog.Declaration{"caps": {Policy: call.Allow,
		Manifest: &manifest.Manifest{ID: "caps", Tools: []manifest.Tool{tool(t, "echo")}}}})
	decider, err := policy.New(policy.Options{Source: known})
	check.Must(t, err)
	answers := approval.New(approval.Config{Approvals: approver,
		Log: slog.New(slog.DiscardHandler)})
	return gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps",
			Backends: []string{gatewaytest.NewCapability("b1").Serve(t, call.Doc).Addr}}},
		Authenticator: ring.authenticator(),
		Leaving:       answers.Leave,
		Services: func(g grpc.ServiceRegistrar) {
			capgatepb.RegisterCatalogServer(g, listing.New(known, decider))
			answers.Register(g)
		},
	})
}

// TestScopesOfServices: the scopes to list and to answer, over gRPC and JSON.
func TestScopesOfServices(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	approver := openDesk(t).Service
	asked := func(of string) string {
		outside()
		a, _, refusal := approver.Create(t.Context(), &approvals.Request{Tenant: of, User: "ann", Agent: of,
			Capability: "caps", Tool: "echo", Args: []byte(`{"n":1}`)})
		if refusal != nil {
			t.Fatal(refusal)
		}
		return a.ID
	}
	ours, theirs := asked("acme"), asked("globex")
	g := services(t, ring, approver)
	ask := func(method, path, key, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, g.URL(path), strings.NewReader(body))
		check.Must(t, err)
		if key != "" {
			req.Header.Set("X-Api-Key", ring.credentials[key])
		}
		req.Header.Set("X-User-Id", "ann")
		resp, err := g.HTTP1(t).Do(req)
		check.Must(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		check.Must(t, err)
		return resp.StatusCode, string(text)
	}
	for _, step := range []struct {
		method, path, key, body string
		status                  int
		want                    string
	}{
		{"GET", "/v1/capabilities", "", "", 401, "CREDENTIAL_MISSING"},
		{"GET", "/v1/capabilities", "caller", "", 403, `"scope":"read"`},
		{"GET", "/v1/capabilities", "approver", "", 403, "SCOPE_MISSING"},
		{"GET", "/v1/capabilities", "reader", "", 200, `"caps"`},
		{"GET", "/v1/approvals", "", "", 401, "CREDENTIAL_MISSING"},
		{"GET", "/v1/approvals/events", "", "", 401, "CREDENTIAL_MISSING"},
		{"GET", "/v1/approvals", "caller", "", 403, "SCOPE_MISSING"},
		{"GET", "/v1/approvals/" + ours, "reader", "", 200, ours},
		{"GET", "/v1/approvals/" + ours, "globex", "", 404, "APPROVAL_UNKNOWN"},
		{"GET", "/v1/approvals?tenant=acme", "globex", "", 404, "APPROVAL_UNKNOWN"},
		{"GET", "/v1/approvals/" + theirs, "approver", "", 404, "APPROVAL_UNKNOWN"},
		{"POST", "/v1/approvals/" + ours + "/approve", "reader", "{}", 403, "APPROVER_REQUIRED"},
		{"POST", "/v1/approvals/" + ours + "/approve", "caller", "{}", 403, `"scope":"approve"`},
		{"POST", "/v1/approvals/" + ours + "/deny", "caller", "{}", 403, `"scope":"approve"`},
		{"POST", "/v1/approvals/" + theirs + "/approve", "approver", "{}", 404, "APPROVAL_UNKNOWN"},
		{"POST", "/v1/approvals/" + ours + "/approve", "approver", `{"remember":"always"}`, 403, `"scope":"policy"`},
		{"POST", "/v1/approvals/" + ours + "/approve", "ruler", `{"remember":"always"}`, 403, "SELF_APPROVAL"},
		{"POST", "/v1/approvals/" + ours + "/approve", "approver", `{"by":"mallory"}`, 200,
			`"answered_by":"key ` + ring.credentials["approver"][3:19] + `"`},
	} {
		if code, body := ask(step.method, step.path, step.key, step.body); code != step.status ||
			!strings.Contains(strings.ReplaceAll(body, `": `, `":`), step.want) {
			t.Errorf("%s %s as %s: %d %s", step.method, step.path, step.key, code, body)
		}
	}
	client := capgatepb.NewApprovalsClient(g.Conn(t))
	ctx := metadata.AppendToOutgoingContext(bearer(t.Context(), ring.credentials["ruler"]), "x-user-id", "bob")
	// ann's approval, which the key could answer for bob if it were not answered
	wants(t, errOf(client.Deny(ctx, &capgatepb.DenyRequest{ApprovalId: ours})), codes.FailedPrecondition,
		"APPROVAL_NOT_PENDING")
	wants(t, errOf(client.ListApprovals(bearer(t.Context(), ring.credentials["caller"]),
		&capgatepb.ListApprovalsRequest{})), codes.PermissionDenied, "SCOPE_MISSING")
}

func errOf[T any](_ T, err error) error { return err }
