package cli

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// replicas are gateways with one Redis, and the backends "first" and "second".
type replicas struct {
	redis         *redistest.Server
	first, second *gatewaytest.Capability
	one, two      string // their addresses
	file          string
}

func newReplicas(t *testing.T) *replicas {
	t.Helper()
	r := &replicas{redis: redistest.Start(t), first: gatewaytest.NewCapability("first"),
		second: gatewaytest.NewCapability("second")}
	r.one, r.two = r.first.Serve(t, call.Doc).Addr, r.second.Serve(t, call.Doc).Addr
	r.file = r.config(t, "")
	return r
}

// config writes a configuration file. On a busy machine, neither Redis nor a backend seems to be down.
func (r *replicas) config(t *testing.T, more string) string {
	t.Helper()
	text := configOf(fmt.Sprintf("redis: {url: %q, timeout: 10s}\n%s", r.redis.URL(), more), r.one, r.two)
	return writeConfig(t, strings.Replace(text, patientProbes,
		"max_concurrent: 100, health: {interval: 20s, timeout: 20s}", 1))
}

// drain runs capgate drain to its end, which must succeed.
func drain(t *testing.T, admin string, args ...string) (stdout string) {
	t.Helper()
	return runGood(t, admin, append([]string{"drain"}, args...)...)
}

// undrain runs capgate undrain to its end, which must succeed.
func undrain(t *testing.T, admin string, args ...string) (stdout string) {
	t.Helper()
	return runGood(t, admin, append([]string{"undrain"}, args...)...)
}

// runGood runs a command at an admin API to its end, which must succeed.
func runGood(t *testing.T, admin string, args ...string) (stdout string) {
	t.Helper()
	exit, stdout, stderr := runProgram(t, []string{"CAPGATE_ADMIN=" + admin}, args...)
	if exit != 0 || stderr != "" {
		t.Fatalf("capgate %q: exit status %d: %s%s", args, exit, stdout, stderr)
	}
	return stdout
}

// invoke calls a tool of caps and returns when the response arrived.
func invoke(client docpb.CapabilityClient, tool string) <-chan error {
	answered := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), check.Patience)
		defer cancel()
		_, err := client.Invoke(ctx, &docpb.InvokeRequest{CapabilityId: "caps", ToolName: tool, ArgsJson: []byte("{}")})
		answered <- err
	}()
	return answered
}

// A drain at one replica applies to all, also to a later one, under load and without failing a call.
func TestDrainForAllReplicas(t *testing.T) {
	t.Parallel()
	r := newReplicas(t)
	a, publicA, adminA := serve(t, nil, "--config", r.file)
	b, publicB, adminB := serve(t, nil, "--config", r.file)
	clientA, clientB := dial(t, publicA), dial(t, publicB)

	if out := drain(t, adminA, r.two); !strings.HasSuffix(out,
		"no call is in flight there, at 2 replicas\n") {
		t.Errorf("got %q", out)
	}
	blocked := invoke(clientB, gatewaytest.Block)
	check.Received(t, r.first.Blocked(), "the call at the only backend that is not drained")
	undrain(t, adminB, r.two)
	waitPage(t, "http://"+adminA+"/v1/fleets", `"usable":2`)

	loadA, loadB := startLoad(t, 2, clientA), startLoad(t, 2, clientB)
	draining := start(t, nil, "drain", r.one, "--admin", adminA)
	draining.stdout.wait(t, draining, "\n1 call in flight at 2 replicas\n")
	before := len(r.first.Seen()) // with the call in flight, as each replica has the drain
	loadA.more(t, 50)
	loadB.more(t, 50)
	if n := len(r.first.Seen()) - before; n > 0 {
		t.Errorf("a drained backend got %d calls", n)
	}
	r.first.Release()
	if exit := draining.wait(t); exit != 0 ||
		!strings.HasSuffix(draining.stdout.String(), "no call is in flight there, at 2 replicas\n") {
		t.Errorf("exit status %d: %s%s", exit, draining.stdout, draining.stderr)
	}
	if err := check.Received(t, blocked, "the end of the held call"); err != nil {
		t.Error("the call that was there: ", err)
	}

	loadB.end()
	b.stop(t)
	b, publicB, adminB = serve(t, nil, "--config", r.file)
	before = len(r.first.Seen())
	loadB = startLoad(t, 2, dial(t, publicB))
	loadB.more(t, 50)
	if n := len(r.first.Seen()) - before; n > 0 {
		t.Errorf("a drained backend got %d calls from a replica that started later", n)
	}
	undrain(t, adminB, r.one)
	for _, admin := range []string{adminA, adminB} {
		waitPage(t, "http://"+admin+"/v1/fleets", `"usable":2`)
	}
	loadA.end()
	loadB.end()
	if n := loadA.failed.Load() + loadB.failed.Load(); n > 0 {
		t.Errorf("%d calls failed", n)
	}
	a.stop(t)
	b.stop(t)
}

// While Redis is unavailable, a replica drains alone and reports it; the others follow when Redis is back,
// empty.
func TestDrainWithoutRedis(t *testing.T) {
	t.Parallel()
	r := newReplicas(t)
	_, public, admin := serve(t, nil, "--config", r.file)
	_, _, other := serve(t, nil, "--config", r.file)
	drain(t, other, r.one)
	r.redis.Kill()
	waitPage(t, "http://"+admin+"/readyz", `"redis":"away"`)

	undrain(t, admin, r.one)
	exit, stdout, stderr := runProgram(t, nil, "drain", r.two, "--timeout", "1ms", "--admin", admin)
	if exit != 1 || !strings.Contains(stderr, "the drain stays") || !strings.Contains(stdout+stderr, r.two) {
		t.Errorf("exit status %d: %s%s", exit, stdout, stderr)
	}
	const calls = 20
	client := dial(t, public)
	for range calls {
		if err := check.Received(t, invoke(client, gatewaytest.Echo), "the answer"); err != nil {
			t.Error(err)
		}
	}
	if first, second := len(r.first.Seen()), len(r.second.Seen()); first != calls || second != 0 {
		t.Errorf("the other backend got %d calls and the drained one %d, want %d and 0", first, second, calls)
	}
	r.redis.Restart()
	waitStatus(t, other, r.one, "up")
	waitStatus(t, other, r.two, "draining")
	waitStatus(t, admin, r.one, "up")
	waitStatus(t, admin, r.two, "draining")
}

func TestDrainRefused(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("b").Serve(t, call.Doc)
	_, _, admin := serve(t, nil, "--config", configFile(t, backend.Addr, ""))
	nobody := gatewaytest.Unreachable(t)
	for _, test := range []struct {
		args []string
		exit int
		want string
	}{
		{[]string{"drain", "10.0.0.9:1"}, 1, "no fleet has the backend 10.0.0.9:1"},
		{[]string{"undrain", "10.0.0.9:1"}, 1, "no fleet has the backend 10.0.0.9:1"},
		{[]string{"drain", backend.Addr, "--capability", "none"}, 1, "no fleet none has the backend " + backend.Addr},
		{[]string{"drain", backend.Addr}, 1, "set force to drain it anyway (--force)"},
		{[]string{"drain", backend.Addr, "--admin", nobody}, 3,
			"the flag --admin or the variable CAPGATE_ADMIN sets its address"},
		{[]string{"drain", backend.Addr, "--admin", backend.Addr}, 3, ""},
		{[]string{"drain"}, 2, "HOST:PORT is missing"},
		{[]string{"undrain"}, 2, "HOST:PORT is missing"},
		{[]string{"undrain", backend.Addr, "--force"}, 2, "unknown flag --force"},
		{[]string{"drain", backend.Addr, "--timeout", "-1s"}, 2, "--timeout must not be negative"},
		{[]string{"drain", backend.Addr, "--admin", "nowhere"}, 2,
			"want host:port, http://host:port or https://host:port"},
		{[]string{"drain", backend.Addr, "--admin", "ftp://user:hush@h"}, 2,
			"want host:port, http://host:port or https://host:port"},
		{[]string{"drain", backend.Addr, "h:1"}, 2, "unexpected argument"},
	} {
		exit, stdout, stderr := runProgram(t, []string{"CAPGATE_ADMIN=" + admin}, test.args...)
		if exit != test.exit || stdout != "" || !strings.Contains(stderr, test.want) ||
			strings.Contains(stderr, "hush") {
			t.Errorf("%q: exit status %d: %s%s", test.args, exit, stdout, stderr)
		}
	}
	out := drain(t, admin, backend.Addr, "--force", "--timeout", "0")
	if out != fmt.Sprintf("%s gets no new calls in caps\n", backend.Addr) {
		t.Errorf("got %q", out)
	}
	for _, want := range []string{" is back in caps\n", " was not drained in caps\n"} {
		if out := undrain(t, admin, backend.Addr); out != backend.Addr+want {
			t.Errorf("%q, want %q", out, want)
		}
	}
}
