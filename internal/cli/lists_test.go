package cli

import (
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestCallsCommand: calls are listed, found by a part of their texts, and followed; a call is printed once.
func TestCallsCommand(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("b").Serve(t, call.Doc)
	_, public, admin := serve(t, nil, "--config", configFile(t, backend.Addr, ""))
	client := dial(t, public)
	invoke := func(user string) {
		t.Helper()
		_, err := invokeAs(t, client, user, `{}`, "x-request-id", "req-of-"+user)
		check.Must(t, err)
	}
	run := func(args ...string) string {
		t.Helper()
		exit, stdout, stderr := runProgram(t, nil, append([]string{"calls", "--admin", admin}, args...)...)
		if exit != 0 {
			t.Errorf("%s: exit status %d: %s", args, exit, stderr)
		}
		return stdout
	}
	invoke("ann")
	invoke("bob")
	check.Until(t, "both calls", func() (bool, string) {
		text := run()
		return strings.Count(text, "\n") == 2, text
	})
	if text := run(); !strings.Contains(text, "ann") || !strings.Contains(text, "  caps."+gatewaytest.Echo) ||
		!strings.Contains(text, "  OK  ") ||
		strings.Index(text, "ann") > strings.Index(text, "bob") || strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
	if text := run("--query", "REQ-OF-BO"); strings.Contains(text, "ann") || !strings.Contains(text, "req-of-bob\n") {
		t.Errorf("%q", text)
	}
	if text := run("-n", "1", "-o", "json"); !strings.Contains(text, `"user": "bob"`) || strings.Contains(text, "ann") {
		t.Errorf("%q", text)
	}
	check.Until(t, "both calls among those of past days", func() (bool, string) {
		text := run("--since", "1h", "--query", "req-of")
		return strings.Count(text, "\n") == 2 && strings.Index(text, "ann") < strings.Index(text, "bob"), text
	})
	_, stdout, stderr := runProgram(t, nil, "calls", "--admin", admin, "--since", "1h", "--query", "req-of", "-n", "1")
	if strings.Count(stdout, "\n") != 1 ||
		!strings.Contains(stderr, "the newest 1 of 2 calls are shown; -n 2 shows all") {
		t.Errorf("one of two: %q, %q", stdout, stderr)
	}
	for flag, value := range map[string]string{"--outcome": "tool_error", "--code": "UNAVAILABLE"} {
		exit, _, stderr := runProgram(t, nil, "calls", "--admin", admin, flag, "foo")
		if exit == 0 || !strings.Contains(stderr, value) {
			t.Errorf("%s foo: exit status %d: %s", flag, exit, stderr)
		}
	}
	if exit, _, _ := runProgram(t, nil, "calls", "--admin", admin, "--since", "1h", "--follow"); exit != 2 {
		t.Errorf("--since with --follow: exit status %d", exit)
	}
	follower := start(t, nil, "calls", "--follow", "--admin", admin, "--query", "req-of")
	follower.stdout.wait(t, follower, "req-of-bob")
	invoke("cid")
	follower.stdout.wait(t, follower, "req-of-cid")
	follower.signal(t, syscall.SIGINT)
	if exit := follower.wait(t); exit != 0 || strings.Count(follower.stdout.String(), "\n") != 3 {
		t.Errorf("exit status %d: %q, %s", exit, follower.stdout.String(), follower.stderr.String())
	}
}

// TestListsOfOperators: changes, sessions and dead letters by the command line, with the roles that they need.
func TestListsOfOperators(t *testing.T) {
	t.Parallel()
	g := startGuarded(t)
	run := func(role string, args ...string) (int, string) {
		exit, stdout, stderr := runProgram(t, []string{"CAPGATE_ADMIN=" + g.admin, "CAPGATE_KEY=" + g.keys[role]},
			args...)
		return exit, stdout + stderr
	}
	want := func(role string, exit int, part string, args ...string) {
		t.Helper()
		if got, text := run(role, args...); got != exit || !strings.Contains(text, part) {
			t.Errorf("%s %s: exit status %d: %s, want %d and %s", role, args, got, text, exit, part)
		}
	}
	signIn := func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.admin+"/signin/key",
			strings.NewReader(url.Values{"key": {g.keys["admin"]}}.Encode()))
		check.Must(t, err)
		req.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Origin": {"http://" + g.admin}}
		resp, err := http.DefaultTransport.RoundTrip(req) // follows nothing
		check.Must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusSeeOther {
			t.Fatal(resp.Status)
		}
	}
	want("admin", 0, "no sessions", "sessions", "list")
	signIn()
	_, text := run("admin", "sessions", "list", "--query", "ADMIN")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 2 {
		t.Fatal(text)
	}
	id := strings.Fields(lines[1])[0]
	want("viewer", exitRefused, "ROLE_MISSING", "sessions", "list")
	want("acme's admin", exitRefused, "OPERATOR_TENANT", "sessions", "list")
	want("viewer", exitRefused, "ROLE_MISSING", "sessions", "revoke", id)
	want("admin", exitUsage, "want the id of a session, or --name", "sessions", "revoke")
	want("admin", 0, "ended: "+id, "sessions", "revoke", id)
	want("admin", 0, `"sessions": []`, "sessions", "list", "-o", "json")

	want("admin", 0, "no dead letters: no notices are configured", "webhooks", "list")
	want("admin", exitUsage, "want the id of a dead letter, or --all", "webhooks", "retry")
	want("admin", exitRefused, "LETTER_UNKNOWN", "webhooks", "retry", "msg_none")
	want("viewer", exitRefused, "ROLE_MISSING", "webhooks", "retry", "--all")
	want("operator", 0, "retried: 0 dead letters", "webhooks", "retry", "--all")

	// changes are listed a moment later
	check.Until(t, "the revoked session among the changes", func() (bool, string) {
		_, text := run("viewer", "audit", "list", "--what", "session.*")
		return strings.Contains(text, "session.revoked") && strings.Contains(text, "session="+id), text
	})
	want("viewer", 0, "session.revoked", "audit", "list", "--query", id[:len(id)-1])
	if _, text := run("acme's viewer", "audit", "list", "--query", id); strings.Contains(text, "session.revoked") {
		t.Errorf("a viewer of one tenant finds %s", text)
	}
}
