package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/issuertest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// TestIssuersOfTheFile: issuers are added, changed and removed with the file while calls run, the start does not
// wait for them, and their problems are reported.
func TestIssuersOfTheFile(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	issuer, other := issuertest.Start(t), issuertest.Start(t)
	key, ofKey := makeKey(t)
	var files configMap
	put := func(issuers string) {
		text := "tenants: [{id: acme, capabilities: ['*'], keys: [" + ofKey +
			"]}, {id: globex, capabilities: ['*']}]\n" + issuers
		files.put(t, map[string]string{"capgate.yaml": configOf(text, backend), "bad": "no certificate"})
	}
	block := func(i *issuertest.Issuer, name, more string) string {
		return fmt.Sprintf("  - {name: %s, issuer: %q, audiences: [capgate], ca_file: %s%s}\n", name, i.URL, i.CAFile, more)
	}
	raw, gone := issuer.Token(t, nil), other.Token(t, nil)
	other.Stop(t)
	put("issuers:\n" + block(issuer, "corp", "") + block(other, "away", ""))
	p, public, admin := serve(t, nil, "--config", files.file("capgate.yaml"))
	change := func(text string) { // at once: that a gateway finds it out itself is tested elsewhere
		put(text)
		p.signal(t, syscall.SIGHUP)
	}
	p.stderr.wait(t, p, `"tenants":2,"keys":1,"certificates":0,"redis":false,"issuers":2`)
	client := dial(t, public)
	wait := func(what, credential, reason string) {
		t.Helper()
		for got := ""; got != reason; { // a change of the file has no event of its own
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+credential)
			_, err := client.Invoke(ctx, &docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo,
				ArgsJson: []byte("{}")})
			got = status.Code(err).String()
			for _, detail := range status.Convert(err).Details() {
				if info, ok := detail.(*errdetails.ErrorInfo); ok {
					got = info.GetReason()
				}
			}
			if got != reason {
				t.Logf("%s: %s", what, got)
				waitPage(t, "http://"+admin+"/readyz", "loaded_at")
			}
		}
	}
	wait("a token", raw, "OK")
	wait("a key", key, "OK")
	wait("an issuer that is away", gone, "IDENTITY_UNAVAILABLE")
	for _, line := range []string{`capgate_issuer_up{issuer="corp"} 1`, `capgate_issuer_up{issuer="away"} 0`,
		`capgate_issuer_fetches_total{issuer="corp",result="ok"} 1`} {
		waitPage(t, "http://"+admin+"/metrics", line)
	}
	if exit, _, stderr := runProgram(t, []string{"CAPGATE_KEY=" + raw}, "invoke", "--addr", public, "caps",
		gatewaytest.Echo); exit != 0 {
		t.Errorf("capgate invoke: %d, %s", exit, stderr)
	}
	other.Resume(t)
	wait("an issuer that is back", gone, "OK")

	change("issuers:\n" + block(issuer, "corp", ", tenant: globex"))
	wait("an issuer that was taken out", gone, "CREDENTIAL_INVALID")
	wait("another tenant", raw, "OK")
	change("issuers:\n" + block(issuer, "corp", ", required_claims: {email_verified: true}"))
	wait("a claim is missing", raw, "CREDENTIAL_INVALID")
	wait("a claim is there", issuer.Token(t, map[string]any{"email_verified": true}), "OK")

	for text, want := range map[string]string{
		"  - {name: corp, issuer: " + issuer.URL +
			", audiences: [capgate], ca_file: /nowhere}\n": "issuer corp: ca_file: /nowhere: cannot be read",
		"  - {name: corp, issuer: " + issuer.URL + ", audiences: [capgate], ca_file: " + files.file("bad") +
			"}\n": "contains no PEM certificate",
		"  - {name: corp, issuer: " + issuer.URL +
			"}\n": "issuers[0].audiences: required",
	} {
		change("issuers:\n" + text)
		waitPage(t, "http://"+admin+"/readyz", want)
		if exit, _, stderr := runProgram(t, nil, "check", "--config", files.file("capgate.yaml")); exit != 1 ||
			!strings.Contains(stderr, want) {
			t.Errorf("capgate check: %d, %s", exit, stderr)
		}
	}
	wait("what was in force stays", issuer.Token(t, map[string]any{"email_verified": true}), "OK")
	change("")
	wait("no issuers", raw, "CREDENTIAL_INVALID")
	wait("a key", key, "OK")
	p.stop(t)
	for _, token := range []string{raw, gone} {
		if strings.Contains(p.stderr.String(), token[len(token)-40:]) {
			t.Error("the log has a token")
		}
	}
	file := filepath.Join(t.TempDir(), "capgate.yaml")
	check.Must(t, os.WriteFile(file, []byte("fleets: [{capability: a, backends: []}]\nissuers: [{name: a, issuer: "+
		"'https://a.example.com', audiences: [b]}]"), 0o600))
	if exit, _, stderr := runProgram(t, nil, "check", "--config", file); exit != 1 ||
		!strings.Contains(stderr, "add tenants") {
		t.Errorf("capgate check: %d, %s", exit, stderr)
	}
}

// TestTokensOfTenantsInRedis: whether a token's tenant may call is what Redis says, and followed.
func TestTokensOfTenantsInRedis(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("one").Serve(t, call.Doc).Addr
	issuer := issuertest.Start(t)
	var files configMap
	files.put(t, map[string]string{"capgate.yaml": configOf(fmt.Sprintf("identity: {store: redis}\nissuers: "+
		"[{name: corp, issuer: %q, audiences: [capgate], ca_file: %s}]\n", issuer.URL, issuer.CAFile), backend)})
	p, public, admin := serve(t, nil, "--config", files.file("capgate.yaml"))
	// Redis is embedded
	p.stderr.wait(t, p, "new tenants and API keys end with this process")
	client, raw := dial(t, public), issuer.Token(t, nil)
	invoke := func() string {
		_, err := client.Invoke(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+raw),
			&docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte("{}")})
		for _, detail := range status.Convert(err).Details() {
			if info, ok := detail.(*errdetails.ErrorInfo); ok {
				return info.GetReason()
			}
		}
		return status.Code(err).String()
	}
	if got := invoke(); got != "CREDENTIAL_INVALID" {
		t.Errorf("no tenant: %s", got)
	}
	for _, step := range []struct {
		args   []string
		reason string
	}{
		{[]string{"create", "acme", "--capabilities", "*"}, "OK"},
		{[]string{"set", "acme", "--disabled"}, "TENANT_DISABLED"},
		{[]string{"set", "acme", "--disabled=false"}, "OK"},
		{[]string{"rm", "acme"}, "CREDENTIAL_INVALID"},
	} {
		if exit, _, stderr := runProgram(t, nil,
			append(append([]string{"tenants"}, step.args...), "--admin", admin)...); exit != 0 {
			t.Fatalf("%v: %s", step.args, stderr)
		}
		for got := ""; got != step.reason; { // replicas follow by themselves
			if got = invoke(); got != step.reason {
				waitPage(t, "http://"+admin+"/readyz", "loaded_at")
			}
		}
	}
}
