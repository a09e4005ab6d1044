package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// capgatePolicy runs capgate policy to its end.
func capgatePolicy(t *testing.T, admin string, args ...string) (exit int, stdout, stderr string) {
	t.Helper()
	return runProgram(t, []string{"CAPGATE_ADMIN=" + admin}, append([]string{"policy"}, args...)...)
}

// as calls a tool on behalf of a user.
func as(t *testing.T, client docpb.CapabilityClient, user, tool string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	if user != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-user-id", user)
	}
	_, err := client.Invoke(ctx, &docpb.InvokeRequest{CapabilityId: "caps", ToolName: tool, ArgsJson: []byte("{}")})
	return err
}

// until calls until the response has a code.
func until(t *testing.T, client docpb.CapabilityClient, user, tool string, want codes.Code) {
	t.Helper()
	check.Until(t, "a call to be decided otherwise", func() (bool, string) {
		err := as(t, client, user, tool)
		return status.Code(err) == want, fmt.Sprintf("%s of %q: %v, want %v", tool, user, err, want)
	})
}

// TestPoliciesOfAllReplicas: a rule set at one replica applies at the other; without Redis, known decisions
// continue and unknown ones are rejected.
func TestPoliciesOfAllReplicas(t *testing.T) {
	t.Parallel()
	redis, capability := redistest.Start(t), gatewaytest.NewCapability("first")
	file := writeConfig(t, strings.Replace(configOf("policies: {}\nredis: {url: '"+redis.URL()+"', timeout: 5s}",
		capability.Serve(t, call.Doc).Addr), "policy: allow", "policy: block", 1))
	a, publicA, adminA := serve(t, nil, "--config", file)
	b, publicB, adminB := serve(t, nil, "--config", file)
	one, two := dial(t, publicA), dial(t, publicB)

	until(t, one, "ann", gatewaytest.Echo, codes.PermissionDenied)
	until(t, two, "ann", gatewaytest.Echo, codes.PermissionDenied)
	if exit, out, errs := capgatePolicy(t, adminA, "set", "caps", gatewaytest.Echo, "allow", "--user",
		"ann"); exit != 0 || out != "allow: calls of echo of caps by user ann, tenant default\n" {
		t.Fatalf("%d %s%s", exit, out, errs)
	}
	until(t, one, "ann", gatewaytest.Echo, codes.OK)
	until(t, two, "ann", gatewaytest.Echo, codes.OK)
	until(t, two, "bob", gatewaytest.Echo, codes.PermissionDenied)

	exit, out, errs := capgatePolicy(t, adminB, "list")
	if rows := strings.Split(strings.TrimSpace(out), "\n"); exit != 0 || len(rows) != 2 ||
		strings.Join(strings.Fields(rows[1])[:5], " ") != "ann - caps echo allow" {
		t.Errorf("%d %s%s; rows %+v", exit, out, errs, rows)
	}
	exit, out, errs = capgatePolicy(t, adminB, "explain", "caps", gatewaytest.Echo, "--user", "ann", "--agent", "bot")
	if exit != 0 || !strings.HasPrefix(out, "allow, by user\n") || !strings.Contains(out, "<- decides") ||
		strings.Count(out, "\n") != 3+20+3 {
		t.Errorf("%d %s%s", exit, out, errs)
	}
	if exit, _, errs = capgatePolicy(t, adminB, "rm", "caps", "other"); exit != exitRefused ||
		!strings.Contains(errs, "POLICY_UNKNOWN") {
		t.Errorf("got %d %s", exit, errs)
	}
	if exit, _, errs = capgatePolicy(t, adminB, "set", "Caps", "x", "allow"); exit != exitRefused ||
		!strings.Contains(errs, "POLICY_INVALID") {
		t.Errorf("got %d %s", exit, errs)
	}

	redis.Kill()
	waitPage(t, "http://"+adminB+"/metrics", "capgate_redis_up 0")
	until(t, two, "ann", gatewaytest.Echo, codes.OK)
	if err := as(t, two, "ann", "unheard-of"); status.Code(err) != codes.Unavailable {
		t.Errorf("an unknown decision while Redis is away: %v", err)
	}
	if exit, _, errs = capgatePolicy(t, adminB, "rm", "caps", gatewaytest.Echo, "--user",
		"ann"); exit != exitUnreachable {
		t.Errorf("got %d %s", exit, errs)
	}
	a.stop(t)
	b.stop(t)
}

// TestShadowMode: changes by candidate rules are counted and logged, and not applied.
func TestShadowMode(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("first")
	file := writeConfig(t, configOf("policies: {shadow: true}", capability.Serve(t, call.Doc).Addr))
	p, public, admin := serve(t, nil, "--config", file)
	client := dial(t, public)
	until(t, client, "ann", gatewaytest.Echo, codes.OK)
	if exit, out, errs := capgatePolicy(t, admin, "set", "caps", gatewaytest.Echo, "ask", "--user", "ann",
		"--candidate"); exit != 0 || out != "ask: calls of echo of caps by user ann, tenant default, as a candidate\n" {
		t.Fatalf("%d %s%s", exit, out, errs)
	}
	until(t, client, "ann", gatewaytest.Echo, codes.OK)
	until(t, client, "bob", gatewaytest.Echo, codes.OK)
	waitPage(t, "http://"+admin+"/metrics",
		`capgate_policy_shadow_differences_total{candidate="ask",capability="caps",decision="allow"} 1`)
	p.stderr.wait(t, p, `"policy":"allow","policy_level":"fleet","policy_candidate":"ask"`)

	exit, out, errs := capgatePolicy(t, admin, "explain", "caps", gatewaytest.Echo, "--user", "ann")
	if exit != 0 || !strings.HasPrefix(out, "allow, by fleet\ncandidate rules: ask, by user\n\n") {
		t.Errorf("%d %s%s", exit, out, errs)
	}
	exit, out, errs = capgatePolicy(t, admin, "explain", "caps", gatewaytest.Echo, "--user", "ann", "--candidate")
	if exit != 0 || !strings.HasPrefix(out, "ask, by user\napprovals: answered by any approver") ||
		!strings.Contains(out, "<- decides") {
		t.Errorf("%d %s%s", exit, out, errs)
	}
	for _, candidate := range []bool{false, true} {
		args := []string{"list"}
		if candidate {
			args = append(args, "--candidate")
		}
		if exit, out, errs = capgatePolicy(t, admin, args...); exit != 0 || strings.Contains(out, "ann") != candidate {
			t.Errorf("%q: %d %s%s", args, exit, out, errs)
		}
	}
	if exit, _, errs = capgatePolicy(t, admin, "rm", "caps", gatewaytest.Echo, "--user",
		"ann"); exit != exitRefused || !strings.Contains(errs, "POLICY_UNKNOWN") {
		t.Errorf("got %d %s", exit, errs)
	}
	if exit, out, errs = capgatePolicy(t, admin, "rm", "caps", gatewaytest.Echo, "--user", "ann",
		"--candidate"); exit != 0 {
		t.Errorf("%d %s%s", exit, out, errs)
	}
}

// TestAReplicaStartsWarm: after a restart, decisions about recent callers of any replica need no lookup in
// Redis.
func TestAReplicaStartsWarm(t *testing.T) {
	t.Parallel()
	redis, capability := redistest.Start(t), gatewaytest.NewCapability("first")
	file := writeConfig(t, configOf("policies: {}\nredis: {url: '"+redis.URL()+"', timeout: 5s}",
		capability.Serve(t, call.Doc).Addr))
	first, public, _ := serve(t, nil, "--config", file)
	client := dial(t, public)
	for i := range 50 {
		until(t, client, fmt.Sprint("user-", i), gatewaytest.Echo, codes.OK)
	}
	first.stop(t)

	second, public, admin := serve(t, nil, "--config", file)
	second.stderr.wait(t, second, `"msg":"policy cache warmed","decisions":50`)
	client = dial(t, public)
	for i := range 50 {
		if err := as(t, client, fmt.Sprint("user-", i), gatewaytest.Echo); err != nil {
			t.Error(err)
		}
	}
	waitPage(t, "http://"+admin+"/metrics",
		`capgate_policy_decisions_total{cached="true",decision="allow",level="fleet"} 50`)
	const asked = `capgate_policy_lookups_total{result="found"} `
	waitPage(t, "http://"+admin+"/metrics", asked+"0\n")
	until(t, client, "somebody else", gatewaytest.Echo, codes.OK)
	waitPage(t, "http://"+admin+"/metrics", asked+"1\n")
}

// TestManifestsOfFleets: without rules the manifest decides, and a changed file replaces it; capgate policy
// reports that there are no rules.
func TestManifestsOfFleets(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("first")
	manifest := writeConfig(t, manifestOf("allow"))
	file := writeConfig(t, strings.Replace(configOf("", capability.Serve(t, call.Doc).Addr), "policy: allow",
		"manifest: "+manifest, 1))
	_, public, admin := serve(t, nil, "--config", file)
	client := dial(t, public)
	until(t, client, "", gatewaytest.Echo, codes.OK)
	until(t, client, "", "unheard-of", codes.NotFound)
	check.Must(t, os.WriteFile(manifest, []byte(manifestOf("ask")), 0o600))
	until(t, client, "", gatewaytest.Echo, codes.FailedPrecondition)
	if exit, _, errs := capgatePolicy(t, admin, "list"); exit != exitRefused ||
		!strings.Contains(errs, "POLICIES_OFF") {
		t.Errorf("got %d %s", exit, errs)
	}
	if exit, out, errs := capgatePolicy(t, admin, "explain", "caps", gatewaytest.Echo); exit != 0 ||
		!strings.HasPrefix(out, "ask, by manifest\n") {
		t.Errorf("%d %s%s", exit, out, errs)
	}
}

// TestManifestsAreFoundInDirectories: manifests in directories are found, including those added while the gateway
// serves.
func TestManifestsAreFoundInDirectories(t *testing.T) {
	t.Parallel()
	capability := gatewaytest.NewCapability("first")
	dir := t.TempDir()
	other := filepath.Join(dir, "other.yaml")
	check.Must(t, os.WriteFile(other, []byte(strings.Replace(manifestOf("allow"), "id: caps", "id: other", 1)), 0o600))
	file := writeConfig(t, "manifests: ["+dir+"]\n"+
		strings.Replace(configOf("", capability.Serve(t, call.Doc).Addr), "policy: allow", "validate_arguments: true",
			1))
	_, public, _ := serve(t, nil, "--config", file)
	client := dial(t, public)
	until(t, client, "", gatewaytest.Echo, codes.PermissionDenied)

	own := filepath.Join(dir, "caps")
	check.Must(t, os.Mkdir(own, 0o700))
	check.Must(t, os.WriteFile(filepath.Join(own, "manifest.yaml"), []byte(manifestOf("allow")), 0o600))
	until(t, client, "", gatewaytest.Echo, codes.OK)

	check.Must(t, os.WriteFile(other, []byte(manifestOf("block")), 0o600)) // two of one id: nothing changes
	exit, _, errs := runProgram(t, nil, "check", "--config", file)
	if exit != 1 || !strings.Contains(errs, "id: caps is already the id of "+filepath.Join(own, "manifest.yaml")) {
		t.Errorf("got %d %s", exit, errs)
	}
	until(t, client, "", gatewaytest.Echo, codes.OK)

	check.Must(t, os.WriteFile(other, []byte("id: caps\nimage: i\ntools: []\n"), 0o600))
	check.Must(t, os.RemoveAll(own))
	if _, _, errs := runProgram(t, nil, "check", "--config", file); !strings.Contains(errs, other) {
		t.Errorf("no file is named: %s", errs)
	}
}

func manifestOf(policy string) string {
	return "id: caps\nimage: i\ntools: [{name: echo, description: d, input_schema: {type: object}, " +
		"recommended_policy: " + policy + "}]\n"
}

func TestPolicyCommandLine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"":                           "want accept-loss, explain, list, matrix, rm or set",
		"allow caps echo":            `unknown command "allow"`,
		"set caps echo":              "allow|ask|block is missing",
		"list caps":                  `unexpected argument "caps"`,
		"explain caps echo --global": "unknown flag --global; it is a flag of capgate policy list",
		"list --admin nowhere":       "--admin",
	} {
		exit, _, stderr := runProgram(t, nil, append([]string{"policy"}, strings.Fields(line)...)...)
		if exit != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%q: %d %s", line, exit, stderr)
		}
	}
}
