package gateway_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// audited returns a front whose callers authenticate and whose calls are recorded.
func audited(t *testing.T, cfg audit.Config, client, backend call.Dialect) (*front, *keyring, *audit.Log) {
	t.Helper()
	log, err := audit.Open(cfg)
	check.Must(t, err)
	check.Cleanup(t, log.Close)
	f, r := &front{capability: gatewaytest.NewCapability("b1")}, newKeyring()
	f.gateway = gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{f.capability.Serve(t,
			backend).Addr}}},
		Authenticator: r.authenticator(),
		Audit:         log,
	})
	f.client = gatewaytest.NewClient(f.gateway.Conn(t), client)
	return f, r, log
}

// verified verifies a log and returns how often it has each record of a call.
func verified(t *testing.T, path string) (text []byte, calls map[string]int) {
	t.Helper()
	text, err := os.ReadFile(path)
	check.Must(t, err)
	if _, err := audit.Verify(bytes.NewReader(text), nil); err != nil {
		t.Errorf("the log does not verify: %v", err)
	}
	calls = map[string]int{}
	for line := range bytes.Lines(text) {
		var rec struct {
			Type, Tenant, User, Agent, Client, Method, Tool, Decision, Code, Reason, Outcome string

			Request string `json:"request_id"`
		}
		check.Must(t, json.Unmarshal(line, &rec))
		if rec.Type != "call" {
			continue
		}
		if rec.Client != "127.0.0.1" || rec.Request != "r1" {
			t.Errorf("%s; rec %+v", line, rec)
		}
		calls[strings.Join([]string{rec.Method, rec.Tenant, rec.User, rec.Agent, rec.Tool, rec.Decision, rec.Code,
			rec.Reason, rec.Outcome}, " ")]++
	}
	return text, calls
}

// TestCallsAreAudited: every call has one record, at all doors, whether it was made or rejected.
func TestCallsAreAudited(t *testing.T) {
	every(t, func(t *testing.T, client, backend call.Dialect) {
		path := filepath.Join(t.TempDir(), "audit.log")
		f, r, log := audited(t, audit.Config{Path: path, Required: true}, client, backend)
		ctx := with(bearer(t.Context(), r.credentials["orchestrator"]), "x-user-id", "ann", "x-agent-id", "bot",
			"x-request-id", "r1")
		if _, err := f.client.Invoke(ctx, request(gatewaytest.Echo, `{"secret":"hunter2"}`)); err != nil {
			t.Fatal(err)
		}
		streamed, filedAs := "StreamInvoke acme ann bot echo allow OK  success",
			"UploadInputArtifact acme ann bot   OK  success"
		switch {
		case client == call.Legacy:
			streamed = "Other acme ann bot   UNIMPLEMENTED DIALECT_UNSUPPORTED "
			filedAs = streamed
		case backend == call.Legacy:
			filedAs = "UploadInputArtifact acme ann bot   UNIMPLEMENTED DIALECT_UNSUPPORTED "
		}
		if _, err := f.client.StreamInvoke(to(ctx, "caps"), request(gatewaytest.Echo, `{}`)); err != nil &&
			client != call.Legacy {
			t.Fatal(err)
		}
		if _, err := f.client.Upload(to(ctx, "caps"), gatewaytest.File{Data: []byte("hunter2")}); err != nil &&
			filed(client, backend) {
			t.Fatal(err)
		}
		if resp, body := post(t, f.gateway.HTTP1(t), f.gateway, "caps",
			`{"tool_name":"echo","config":{"token":"hunter2"}}`, "Authorization", "Bearer "+r.credentials["acme"],
			"X-Request-Id", "r1"); resp.StatusCode != 200 {
			t.Fatal(resp.Status, body)
		}
		_, err := f.client.Invoke(with(t.Context(), "x-request-id", "r1"), request(gatewaytest.Echo, `{}`))
		if errorInfo(err).GetReason() != "CREDENTIAL_MISSING" {
			t.Error(err)
		}
		f.gateway.Stop(t)
		log.Close()
		text, got := verified(t, path)
		if n := bytes.Count(text, []byte("\n")); n != 1+5 {
			t.Errorf("%d records", n)
		}
		for _, want := range []string{
			"Invoke acme ann bot echo allow OK  success", streamed, filedAs,
			"Invoke acme   echo allow OK  success", "Invoke      UNAUTHENTICATED CREDENTIAL_MISSING ",
		} {
			if got[want] != 1 && (want != streamed || streamed != filedAs || got[want] != 2) {
				t.Errorf("%d records %q in %v", got[want], want, got)
			}
		}
		if bytes.Contains(text, []byte("hunter2")) {
			t.Error("a secret is in the log")
		}
	})
}

// TestRequestsRejectedByTheQueueAreAudited: a request that the fair queue rejects is recorded like any other,
// whether or not it had become a call.
func TestRequestsRejectedByTheQueueAreAudited(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	log, err := audit.Open(audit.Config{Path: path, Required: true})
	check.Must(t, err)
	check.Cleanup(t, log.Close)
	all, err := tenant.ParseGrants([]string{"*"})
	check.Must(t, err)
	r, keys, capability := newKeyring(), tenant.NewKeys(nil), gatewaytest.NewCapability("b1")
	keys.Replace(r.keys, map[string]*tenant.Settings{"acme": {ID: "acme", Capabilities: all}}, nil)
	g := gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{capability.Serve(t,
			call.Legacy).Addr}}},
		Authenticator: keys, Audit: log, MaxWaiting: -1,
	})
	said := []string{"X-User-Id", "ann", "X-Agent-Id", "bot", "X-Request-Id", "r1", "Authorization", "Bearer "}
	for _, key := range []string{r.credentials["orchestrator"], "cg_wrong"} {
		header := append(said[:7:7], said[7]+key)
		for _, p := range protocols {
			if resp, body := post(t, p.client(g, t), g, "caps", `{"tool_name":"echo","config":{"token":"hunter2"}}`,
				header...); !strings.Contains(body, "OVERLOADED") {
				t.Error(p.name, resp.Status, body)
			}
		}
	}
	ctx := with(bearer(t.Context(), r.credentials["orchestrator"]), "x-user-id", "ann", "x-agent-id", "bot",
		"x-request-id", "r1")
	_, err = gatewaytest.NewClient(g.Conn(t), call.Doc).Invoke(ctx, request(gatewaytest.Echo, `{"secret":"hunter2"}`))
	wants(t, err, codes.ResourceExhausted, "OVERLOADED") // it would have been translated
	g.Stop(t)
	log.Close()
	text, got := verified(t, path)
	for want, n := range map[string]int{
		"Other acme ann bot   RESOURCE_EXHAUSTED OVERLOADED ":           len(protocols),
		"Other      UNAVAILABLE OVERLOADED ":                            len(protocols),
		"Invoke acme ann bot echo allow RESOURCE_EXHAUSTED OVERLOADED ": 1,
	} {
		if got[want] != n {
			t.Errorf("%d records %q, want %d: %v", got[want], want, n, got)
		}
	}
	if len(got) != 3 || bytes.Contains(text, []byte("hunter2")) || bytes.Contains(text, []byte("cg_")) ||
		len(capability.Seen()) > 0 {
		t.Errorf("%d calls came through; the records are\n%s; got %+v", len(capability.Seen()), text, got)
	}
}

// TestNoCallWithoutRecord: while audit records cannot be written, calls do not reach backends.
func TestNoCallWithoutRecord(t *testing.T) {
	t.Parallel()
	for _, required := range []bool{false, true} {
		lines := gatewaytest.NewLog()
		f, r, _ := audited(t, audit.Config{Path: "/dev/full", Required: required, Retry: time.Hour,
			Patience: time.Millisecond, Log: slog.New(slog.NewJSONHandler(lines, nil))}, call.Doc, call.Doc)
		lines.Wait(t, "the audit log cannot be written") // the first record
		if code, body := f.gateway.Admin(t, "/readyz"); (code == http.StatusOK) == required ||
			!strings.Contains(body, `"degraded":true`) || !strings.Contains(body, `"audit":"failing"`) {
			t.Errorf("required %v: /readyz: %d %s", required, code, body)
		}
		_, err := f.client.Invoke(bearer(t.Context(), r.credentials["acme"]), request(gatewaytest.Echo, `{}`))
		switch {
		case !required && err != nil:
			t.Error(err)
		case required && (status.Code(err) != codes.Unavailable || errorInfo(err).GetReason() != "AUDIT_UNAVAILABLE" ||
			len(f.capability.Seen()) > 0):
			t.Errorf("%v, and the backend has seen %d calls", err, len(f.capability.Seen()))
		}
	}
}
