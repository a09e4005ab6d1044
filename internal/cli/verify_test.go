package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"

	"github.com/capgate/capgate/internal/call"
)

// resultsOf runs capgate verify, and returns the results by name.
func resultsOf(t *testing.T, want int, line ...string) (results map[string]string, all string) {
	t.Helper()
	exit, stdout, stderr := runProgram(t, nil, append([]string{"verify", "--capability", "caps", "--tool",
		gatewaytest.Echo, "--args", `{"a":"x"}`, "-o", "json"}, line...)...)
	var found verified
	if err := json.Unmarshal([]byte(stdout), &found); err != nil || exit != want {
		t.Fatalf("%d %v %s%s", exit, err, stdout, stderr)
	}
	results = map[string]string{}
	for _, c := range found.Checks {
		results[c.Name] = c.Result
	}
	return results, stdout
}

// TestVerify: every guarantee of approvals is checked, and holds, at a gateway with an embedded Redis.
func TestVerify(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("b1")
	file := writeConfig(t, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\npolicies: {}\napprovals: {ttl: 10s}\n"+
		"fleets: [{capability: caps, policy: ask, backends: ['"+backend.Serve(t, call.Doc).Addr+"']}]\n")
	_, public, admin := serve(t, nil, "--config", file)
	results, all := resultsOf(t, 0, "--addr", public, "--admin", admin, "--wait-expiry", "1m", "--user", "ann",
		"--agent", "bot")
	if len(results) != 12 || strings.Contains(all, `"fail"`) || strings.Contains(all, "not checked") {
		t.Error(all, results)
	}
	// Approvals that no check used have expired, and on a busy machine the last of them have not.
	first := len(backend.Seen())
	if first < 3 || first > 8 {
		t.Errorf("the tool ran %d times", first)
	}
	if exit, _, stderr := runProgram(t, nil, "verify", "--addr", public, "--admin", admin); exit != exitUsage ||
		!strings.Contains(stderr, "Policy asks about:\n  --capability caps --tool NAME") {
		t.Error(exit, stderr)
	}
	if !strings.Contains(all, `"approvals": 15`) || !strings.Contains(all, `"left": []`) {
		t.Error(all)
	}
	results, _ = resultsOf(t, 0, "--addr", public, "--admin", admin)
	if results["expiry"] != "not checked" || results["replay"] != "pass" {
		t.Error(results)
	}
	if n := len(backend.Seen()) - first; n < 5 || n > 8 {
		t.Errorf("the tool ran %d times", n)
	}
	for _, state := range []string{"pending", "approved"} {
		_, list, _ := runProgram(t, nil, "approvals", "list", "--state", state, "--admin", admin)
		if strings.Contains(list, "apr_") {
			t.Error("left:", list)
		}
	}
}

// TestVerifyReplicas: the guarantees hold for two replicas that share a Redis.
func TestVerifyReplicas(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("b1")
	file := writeConfig(t, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\npolicies: {}\n"+
		patientRedis(redistest.Start(t).URL())+"\nfleets: [{capability: caps, policy: ask, backends: ['"+
		backend.Serve(t, call.Doc).Addr+"']}]\n")
	_, first, admin := serve(t, nil, "--config", file)
	_, second, _ := serve(t, nil, "--config", file)
	results, all := resultsOf(t, 0, "--addr", first, "--admin", admin, "--replica", second)
	if strings.Contains(all, `"fail"`) || results["one redemption"] != "pass" || results["one answer"] != "pass" {
		t.Error(all, results)
	}
	if n := len(backend.Seen()); n < 5 || n > 8 { // no other user, and no other agent
		t.Errorf("the tool ran %d times", n)
	}
}

// TestVerifyCallsNothing: verify calls no capability that was not named, or for which policy requires no
// approval; its error says how to reach a gateway.
func TestVerifyCallsNothing(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("b1")
	file := writeConfig(t, "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\npolicies: {}\n"+
		"fleets: [{capability: caps, policy: allow, backends: ['"+backend.Serve(t, call.Doc).Addr+"']}]\n")
	_, public, admin := serve(t, nil, "--config", file)
	tool := " --capability caps --tool " + gatewaytest.Echo
	for line, want := range map[string]struct {
		exit int
		says string
	}{
		"":                                 {exitUsage, "--capability and --tool are required"},
		"--capability caps":                {exitUsage, "asks about none of the tools; capgate policy set"},
		tool + " --args x":                 {exitUsage, "--args is not a JSON object"},
		tool + " --config " + file:         {exitUsage, "the port of 127.0.0.1:0 is not fixed"},
		tool + " --config /nowhere":        {exitUsage, "/nowhere"},
		tool + " --admin-key-file /none":   {exitUsage, "--admin-key-file: /none cannot be read"},
		tool:                               {exitRefused, "it is allow, by fleet; nothing was called"},
		tool + " --wait-expiry -1s":        {exitUsage, "must not be negative"},
		" --capability nothing --tool get": {exitRefused, "nothing"},
	} {
		args := append([]string{"verify", "--addr", public, "--admin", admin}, strings.Fields(line)...)
		if strings.Contains(line, "--config /") && strings.Contains(line, file) {
			args = append([]string{"verify"}, strings.Fields(line)...)
		}
		exit, stdout, stderr := runProgram(t, nil, args...)
		if exit != want.exit || !strings.Contains(stderr, want.says) {
			t.Errorf("%s: %d %s%s", line, exit, stdout, stderr)
		}
	}
	if n := len(backend.Seen()); n != 0 {
		t.Errorf("the tool ran %d times", n)
	}
}

// TestVerifyAddresses: the configuration has the addresses, and flags take precedence.
func TestVerifyAddresses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "capgate.yaml")
	check.Must(t, os.WriteFile(file, []byte("listen: ':8443'\nadmin: '127.0.0.1:9999'\n"+
		"fleets: [{capability: a, backends: []}]\n"), 0o600))
	v := &verifyCommand{config: file, from: &gatewayPort{}, admin: &gatewayPort{operators: true}, wait: time.Second}
	c := newVerifyCommand(stdio{})
	check.Must(t, c.Flags().Set("admin", "other:1"))
	v.admin.addr = "other:1"
	check.Must(t, v.addressesOf(c.Flags()))
	if v.from.addr != "127.0.0.1:8443" || v.admin.addr != "other:1" || v.from.tls.on {
		t.Errorf("got %s %s", v.from.addr, v.admin.addr)
	}
}
