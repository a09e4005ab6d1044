package cli

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// capgateApprovals runs capgate approvals to its end.
func capgateApprovals(t *testing.T, admin string, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	return runProgram(t, []string{"CAPGATE_ADMIN=" + admin}, append([]string{"approvals"}, args...)...)
}

// asked calls a tool that requires approval, and returns the approval's id.
func asked(t *testing.T, client docpb.CapabilityClient, user, args string) string {
	t.Helper()
	_, err := invokeAs(t, client, user, args)
	if status.Code(err) != codes.FailedPrecondition {
		t.Fatalf("the call returned %v", err)
	}
	id := clienttest.Metadata(err, "approval")
	if id == "" {
		t.Fatalf("no approval: %v", err)
	}
	return id
}

// invokeAs calls on behalf of a user; more holds names and values of metadata.
func invokeAs(t *testing.T, client docpb.CapabilityClient, user, args string, more ...string) (*docpb.InvokeResponse,
	error) {
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, append(more, "x-user-id", user)...)
	return client.Invoke(ctx, &docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo,
		ArgsJson: []byte(args)})
}

// TestApprovalsCommand: approvals are listed, shown, answered and watched, at any replica.
func TestApprovalsCommand(t *testing.T) {
	t.Parallel()
	redis, capability := redistest.Start(t), gatewaytest.NewCapability("first")
	file := writeConfig(t, strings.Replace(configOf("policies: {}\n"+patientRedis(redis.URL()),
		capability.Serve(t, call.Doc).Addr), "policy: allow", "policy: ask", 1))
	a, publicA, adminA := serve(t, nil, "--config", file)
	b, _, adminB := serve(t, nil, "--config", file)
	client := dial(t, publicA)

	watching := start(t, []string{"CAPGATE_ADMIN=" + adminB}, "approvals", "watch", "--old", "--user", "ann")
	id := asked(t, client, "ann", `{"to": "bob\u001b[2J", "password": "hunter2"}`)
	asked(t, client, "bob", `{}`)
	watching.stdout.wait(t, watching, "asked     "+id+"  echo of caps by user ann\n")

	exit, out, errs := capgateApprovals(t, adminB, "list")
	if rows := strings.Split(strings.TrimSpace(out), "\n"); exit != 0 || len(rows) != 3 ||
		!strings.HasPrefix(rows[2], id+"  pending  ann   -      caps        echo  0s   in ") {
		t.Errorf("%d %s%s; rows %+v", exit, out, errs, rows)
	}
	if exit, out, errs = capgateApprovals(t, adminB, "list", "--user", "bob", "--state", "all"); exit != 0 ||
		strings.Count(out, "\n") != 2 || strings.Contains(out, "ann") {
		t.Errorf("%d %s%s", exit, out, errs)
	}
	exit, out, errs = capgateApprovals(t, adminB, "show", id)
	for _, want := range []string{id + ": pending\n\n", "tool         echo of caps\n", "user         ann\n",
		"agent        -\n", "tenant       default\n", "expires      20", "required by  fleet\n",
		"\narguments:\n  {\n    \"password\": [masked: 1 to 8 characters, by its name],\n    \"to\": " +
			"\"bob\\u001b[2J\"\n  }\n"} {
		if exit != 0 || !strings.Contains(out, want) {
			t.Errorf("%d: no %q in %s%s", exit, want, out, errs)
		}
	}
	exit, out, errs = capgateApprovals(t, adminB, "approve", id, "--by", "eve", "--comment", "go ahead")
	if exit != 0 || !strings.HasPrefix(out, "approved until 20") ||
		!strings.HasSuffix(out, ": echo of caps by user ann\n") {
		t.Errorf("%d %s%s", exit, out, errs)
	}
	watching.stdout.wait(t, watching, "approved  "+id+"  echo of caps by user ann; by eve: go ahead\n")
	if _, out, _ = capgateApprovals(t, adminA, "show", id); !strings.Contains(out,
		" by eve, for the call: go ahead\n") {
		t.Error(out)
	}
	if resp, err := invokeAs(t, client, "ann", `{"password":"hunter2","to":"bob\u001b[2J"}`, "x-approval-id",
		id); err != nil {
		t.Errorf("got %v, %v", resp, err)
	}
	watching.stdout.wait(t, watching, "used      "+id)
	if exit, _, errs = capgateApprovals(t, adminA, "deny", id); exit != exitRefused ||
		!strings.Contains(errs, "APPROVAL_NOT_PENDING") {
		t.Errorf("got %d %s", exit, errs)
	}
	other := asked(t, client, "ann", `{"n":1}`)
	if exit, out, errs = capgateApprovals(t, adminA, "deny", other, "--remember", "always"); exit != 0 ||
		!strings.HasPrefix(out, "denied: echo of caps by user ann; also all calls") {
		t.Errorf("%d %s%s", exit, out, errs)
	}
	until(t, client, "ann", gatewaytest.Echo, codes.PermissionDenied) // by the rule, whatever the arguments
	for line, want := range map[string]string{"show apr_": "APPROVAL_UNKNOWN",
		"approve " + id + " --remember ever": "APPROVAL_INVALID", "show " + id + " --tenant acme": "APPROVAL_UNKNOWN"} {
		if exit, _, errs = capgateApprovals(t, adminA, strings.Fields(line)...); exit != exitRefused ||
			!strings.Contains(errs, want) {
			t.Errorf("%s: %d %s", line, exit, errs)
		}
	}
	waitPage(t, "http://"+adminA+"/metrics", `capgate_approvals_events_total{event="used"} 1`)
	if strings.Contains(a.stderr.String()+b.stderr.String(), "hunter2") {
		t.Error("a log has an argument")
	}
	b.stop(t) // although a watch is open
	watching.stderr.wait(t, watching, "reconnecting\n")
	watching.signal(t, syscall.SIGINT)
	if exit := watching.wait(t); exit != 0 || strings.Contains(watching.stdout.String(), "bob") {
		t.Errorf("%d after Ctrl-C: %s", exit, watching.stdout)
	}
	a.stop(t)
}

// TestWatchGoesOn: after a restart of the gateway, a watch continues with the events that happened meanwhile.
func TestWatchGoesOn(t *testing.T) {
	t.Parallel()
	redis, capability := redistest.Start(t), gatewaytest.NewCapability("first")
	file := writeConfig(t, strings.Replace(configOf("policies: {}\n"+patientRedis(redis.URL()),
		capability.Serve(t, call.Doc).Addr), "policy: allow", "policy: ask", 1))
	_, public, _ := serve(t, nil, "--config", file)
	b, _, admin := serve(t, nil, "--config", file)
	watching := start(t, []string{"CAPGATE_ADMIN=" + admin}, "approvals", "watch", "--old")
	client := dial(t, public)
	first := asked(t, client, "ann", `1`)
	watching.stdout.wait(t, watching, first)
	b.stop(t)
	watching.stderr.wait(t, watching, "reconnecting\n")
	second := asked(t, client, "ann", `2`)
	b, _, _ = serve(t, nil, "--config", file, "--admin", admin)
	watching.stdout.wait(t, watching, second)
	watching.stderr.wait(t, watching, "reconnected\n")
	if out := watching.stdout.String(); strings.Count(out, first) != 1 || strings.Count(out, second) != 1 {
		t.Error(out)
	}
	watching.stop(t)
	b.stop(t)
}

func TestApprovalsCommandLine(t *testing.T) {
	t.Parallel()
	nobody := "127.0.0.1:1"
	for line, want := range map[string]string{
		"":                      "want approve, deny, history, list, review, show or watch",
		"allow apr_":            `unknown command "allow"`,
		"approve":               "ID is missing; write capgate approvals approve ID",
		"list caps":             `unexpected argument "caps"`,
		"watch --admin nowhere": "--admin",
	} {
		exit, _, stderr := runProgram(t, nil, append([]string{"approvals"}, strings.Fields(line)...)...)
		if exit != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%q: %d %s", line, exit, stderr)
		}
	}
	for _, line := range []string{"list", "watch", "approve apr_"} {
		if exit, _, stderr := capgateApprovals(t, nobody, strings.Fields(line)...); exit != exitUnreachable {
			t.Errorf("%q: %d %s", line, exit, stderr)
		}
	}
}

// TestSecretOfApprovals: arguments are encrypted in Redis; another secret needs a restart, which is reported;
// the error of an invalid file has its line.
func TestSecretOfApprovals(t *testing.T) {
	t.Parallel()
	redis, capability := redistest.Start(t), gatewaytest.NewCapability("first")
	keys := writeConfig(t, strings.Repeat("ab", 32)+"\n")
	file := writeConfig(t, strings.Replace(configOf("secret_file: "+keys+"\napprovals: {ttl: 1m}\npolicies: {}\n"+
		patientRedis(redis.URL()), capability.Serve(t, call.Doc).Addr), "policy: allow", "policy: ask", 1))
	p, public, admin := serve(t, nil, "--config", file)
	id := asked(t, dial(t, public), "ann", `{"to":"planted"}`)
	if _, out, _ := capgateApprovals(t, admin, "show", id); !strings.Contains(out, `"to": "planted"`) {
		t.Error(out)
	}
	dump, _ := json.Marshal(redis.Do("EVAL",
		`local all = {} for _, k in ipairs(redis.call('KEYS', '*')) do local t = redis.call('TYPE', k).ok
		if t == 'hash' then all[#all + 1] = table.concat(redis.call('HGETALL', k), ' ') end end return table.concat(all, ' ')`, "0"))
	if !strings.Contains(string(dump), "ann") || strings.Contains(string(dump), "planted") {
		t.Errorf("Redis has %s", dump)
	}
	check.Must(t, os.WriteFile(keys, []byte(strings.Repeat("cd", 32)+"\n"+strings.Repeat("ab", 32)+"\n"), 0o600))
	waitPage(t, "http://"+admin+"/readyz", `"needs_restart":["secret_file"]`)
	check.Must(t, os.WriteFile(keys, []byte("hunter2\n"), 0o600))
	waitPage(t, "http://"+admin+"/readyz", keys+":1: not a secret")
	p.stop(t)
	exit, _, stderr := runProgram(t, nil, "check", "--config", file)
	if exit == 0 || !strings.Contains(stderr, "secret_file: "+keys+":1: not a secret") ||
		strings.Contains(stderr, "hunter2") {
		t.Errorf("got %d %s", exit, stderr)
	}
	check.Must(t, os.WriteFile(keys, []byte(strings.Repeat("cd", 32)+"\n"+strings.Repeat("ab", 32)+"\n"), 0o600))
	p, _, admin = serve(t, nil, "--config", file)
	if _, out, _ := capgateApprovals(t, admin, "show", id); !strings.Contains(out, `"to": "planted"`) {
		t.Errorf("with the old secret second: %s", out)
	}
	p.stop(t)
	check.Must(t, os.WriteFile(keys, []byte(strings.Repeat("cd", 32)+"\n"), 0o600))
	_, _, admin = serve(t, nil, "--config", file)
	exit, out, errs := capgateApprovals(t, admin, "show", id)
	if exit == 0 || !strings.Contains(errs, "APPROVAL_UNKNOWN") {
		t.Errorf("without the old secret: %s%s", out, errs)
	}
}
