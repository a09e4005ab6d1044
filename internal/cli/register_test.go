package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// registryConfig returns a configuration in which backends of "caps" on this machine may register, beside those
// of the file, if any. On a busy machine, probes may be late; these tests tolerate that.
func registryConfig(t *testing.T, more string, backends ...string) string {
	t.Helper()
	text := configOf("registration: {allow: [127.0.0.0/8]}\n"+more, backends...)
	text = strings.Replace(text, patientProbes, "health: {interval: 20s, timeout: 20s}", 1)
	return writeConfig(t, strings.Replace(text, "['']", "[]", 1))
}

// register starts capgate register and returns when the gateway has the backend.
func register(t *testing.T, admin, addr string, args ...string) *program {
	t.Helper()
	p := start(t, []string{"CAPGATE_ADMIN=" + admin},
		append([]string{"register", "caps", addr}, args...)...)
	p.stderr.wait(t, p, "msg=registered")
	return p
}

// waitBackends waits until a gateway has the given number of backends of caps, all of them usable.
func waitBackends(t *testing.T, admin string, n int) {
	t.Helper()
	waitPage(t, "http://"+admin+"/readyz?verbose", fmt.Sprintf(`"capability":"caps","backends":%d,"usable":%d}`, n, n))
}

// A backend that registers serves calls. When it is withdrawn, its calls finish and others go elsewhere: none
// fails.
func TestRegister(t *testing.T) {
	t.Parallel()
	first, second := gatewaytest.NewCapability("first"), gatewaytest.NewCapability("second")
	one, two := first.Serve(t, call.Doc), second.Serve(t, call.Live)
	p, public, admin := serve(t, nil, "--config", registryConfig(t, ""))
	client := dial(t, public)
	registrar := register(t, admin, one.Addr)
	waitBackends(t, admin, 1)
	callOnce(t, client)
	blocked := invoke(client, gatewaytest.Block)
	check.Received(t, first.Blocked(), "the call that stays")
	another := start(t, []string{"CAPGATE_ADMIN=http://" + admin}, "register", "caps", two.Addr, "--weight", "10000",
		"-o", "json")
	waitBackends(t, admin, 2)
	calls := startLoad(t, 3, client)
	calls.more(t, 50)
	registrar.stop(t)
	waitBackends(t, admin, 1)
	before := len(first.Seen())
	calls.more(t, 100)
	calls.end()
	if n := len(first.Seen()) - before; n > 3 {
		t.Errorf("a withdrawn backend got %d calls", n)
	}
	first.Release()
	if err := check.Received(t, blocked, "the end of the held call"); err != nil {
		t.Error("the call that was there when its backend was withdrawn: ", err)
	}
	one.WaitIdle(t)
	if text := registrar.stderr.String(); !strings.Contains(text, "msg=withdrawn") {
		t.Errorf("the registrar says nothing of its end: %s", text)
	}
	if len(second.Seen()) == 0 {
		t.Error("the other backend got no calls")
	}
	another.stop(t)
	for n, line := range strings.Split(strings.TrimSpace(another.stdout.String()), "\n") { // one object for each state
		var is registrationState
		if err := json.Unmarshal([]byte(line), &is); err != nil || is.Addr != two.Addr || is.Capability != "caps" ||
			n < 1 && is.State != registered || n > 0 && is.State != withdrawn {
			t.Errorf("%s: %v; is %+v; n %+v", line, err, is, n)
		}
	}
	waitBackends(t, admin, 0)
	p.stop(t)
}

// The registrations of a killed registrar are not renewed.
func TestRegisterKilled(t *testing.T) {
	t.Parallel()
	backend := gatewaytest.NewCapability("b").Serve(t, call.Doc)
	p, public, admin := serve(t, nil, "--config", registryConfig(t, ""))
	registrar := register(t, admin, backend.Addr, "--ttl", "3s")
	waitBackends(t, admin, 1)
	callOnce(t, dial(t, public))
	registrar.signal(t, syscall.SIGKILL)
	waitBackends(t, admin, 0)
	p.stop(t)
}

// A backend that is registered for a session serves only that session, and no other backend serves it.
func TestRegisterSession(t *testing.T) {
	t.Parallel()
	common, own := gatewaytest.NewCapability("common"), gatewaytest.NewCapability("own")
	p, public, admin := serve(t, nil, "--config", registryConfig(t, "", common.Serve(t, call.Doc).Addr))
	client := dial(t, public)
	registrar := register(t, admin, own.Serve(t, call.Doc).Addr, "--session", "mine")
	// by calls of any session
	waitPage(t, "http://"+admin+"/readyz?verbose", `"capability":"caps","backends":2,"usable":1}`)
	for range 20 {
		for _, session := range []string{"mine", "yours", ""} {
			req := &docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte("{}"),
				SessionId: session}
			if _, err := client.Invoke(t.Context(), req); err != nil {
				t.Error(err)
			}
		}
	}
	if len(own.Seen()) != 20 || len(common.Seen()) != 40 {
		t.Errorf("%d calls at the session's backend, %d at the other", len(own.Seen()), len(common.Seen()))
	}
	for _, seen := range own.Seen() {
		if seen.Request.GetSessionId() != "mine" {
			t.Errorf("the session %q is served by another's backend", seen.Request.GetSessionId())
		}
	}
	registrar.stop(t)
	p.stop(t)
}

// With tenants, a session belongs to one: another tenant's session with the same id goes elsewhere.
func TestRegisterSessionOfATenant(t *testing.T) {
	t.Parallel()
	common, own := gatewaytest.NewCapability("common"), gatewaytest.NewCapability("own")
	acme, ofAcme := makeKey(t)
	globex, ofGlobex := makeKey(t)
	p, public, admin := serve(t, nil, "--config",
		registryConfig(t, "overload: {max_delay: 10s}\ntenants: [{id: acme, capabilities: ['*'], keys: ["+ofAcme+
			"]}, {id: globex, capabilities: ['*'], keys: ["+ofGlobex+"]}]", common.Serve(t, call.Doc).Addr))
	client, addr := dial(t, public), own.Serve(t, call.Doc).Addr
	for want, args := range map[string][]string{
		"tenant: required: the tenant of the session": {"--session", "mine"},
		"--tenant requires --session":                 {"--tenant", "acme"},
	} {
		exit, _, stderr := runProgram(t, nil,
			append([]string{"register", "--admin", admin, "caps", addr}, args...)...)
		if exit == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%s: %d, %s", args, exit, stderr)
		}
	}
	registrar := register(t, admin, addr, "--session", "mine", "--tenant", "acme")
	waitPage(t, "http://"+admin+"/v1/fleets", `"session":"mine","tenant":"acme"`)
	for range 20 {
		for _, key := range []string{acme, globex} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+key)
			req := &docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte("{}"),
				SessionId: "mine"}
			if _, err := client.Invoke(ctx, req); err != nil {
				t.Error(err)
			}
		}
	}
	if len(own.Seen()) != 20 || len(common.Seen()) != 20 {
		t.Errorf("%d calls at the session's backend, %d at the other", len(own.Seen()), len(common.Seen()))
	}
	registrar.stop(t)
	p.stop(t)
}

// Calls for a backend that was never probed wait for the probe, but not for its whole timeout.
func TestRegisterUnprobed(t *testing.T) {
	t.Parallel()
	own := gatewaytest.NewCapability("own")
	silent := func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if strings.HasSuffix(info.FullMethod, "/Healthcheck") {
			<-ctx.Done()
		}
		return handler(ctx, req)
	}
	_, public, admin := serve(t, nil, "--config", registryConfig(t, ""))
	client := dial(t, public)
	register(t, admin, own.Serve(t, call.Doc, grpc.UnaryInterceptor(silent)).Addr, "--session", "mine")
	waitPage(t, "http://"+admin+"/readyz?verbose", `"capability":"caps","backends":1`)
	began := time.Now()
	req := &docpb.InvokeRequest{CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte("{}"),
		SessionId: "mine"}
	if _, err := client.Invoke(t.Context(), req); err != nil || time.Since(began) < 500*time.Millisecond {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

// A registrar registers again at a restarted gateway.
func TestRegisterOutlivesTheGateway(t *testing.T) {
	t.Parallel()
	file := registryConfig(t, "")
	backend := gatewaytest.NewCapability("b").Serve(t, call.Doc)
	p, _, admin := serve(t, nil, "--config", file)
	board := newSwitchboard(t, admin)
	registrar := register(t, board.addr, backend.Addr, "--ttl", "3s")
	waitBackends(t, admin, 1)
	p.stop(t)
	registrar.stderr.wait(t, registrar, "not registered; retrying")
	p, public, admin := serve(t, nil, "--config", file)
	board.to(admin)
	waitBackends(t, admin, 1)
	callOnce(t, dial(t, public))
	registrar.stop(t)
	waitBackends(t, admin, 0)
	p.stop(t)
}

// switchboard is an address that leads to another, which may change.
type switchboard struct {
	addr  string
	mu    sync.Mutex
	leads string
}

func newSwitchboard(t *testing.T, leads string) *switchboard {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	s := &switchboard{addr: listener.Addr().String(), leads: leads}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		s.to("")
		all.Wait()
	})
	all.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { s.join(in) })
		}
	})
	return s
}

// to leads connections to come to another address.
func (s *switchboard) to(leads string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leads = leads
}

// join copies bytes until either side is done.
func (s *switchboard) join(in net.Conn) {
	defer in.Close()
	s.mu.Lock()
	leads := s.leads
	s.mu.Unlock()
	out, err := net.Dial("tcp", leads)
	if err != nil {
		return
	}
	defer out.Close()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(in, out)
		_ = in.Close()
	})
	_, _ = io.Copy(out, in)
	_ = out.Close()
	back.Wait()
}

// A registration at one replica is known to all, and survives the loss of the Redis that they share.
func TestRegisterForAllReplicas(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	first, second := gatewaytest.NewCapability("first"), gatewaytest.NewCapability("second")
	file := registryConfig(t, "redis: {url: '"+redis.URL()+"', timeout: 10s}", second.Serve(t, call.Doc).Addr)
	a, publicA, adminA := serve(t, nil, "--config", file)
	b, publicB, adminB := serve(t, nil, "--config", file)
	registrar := register(t, adminA, first.Serve(t, call.Doc).Addr, "--ttl", "1s")
	waitBackends(t, adminA, 2)
	waitBackends(t, adminB, 2)
	calls := startLoad(t, 2, dial(t, publicA), dial(t, publicB))
	calls.during(t, "redis is unavailable for longer than the lease", func() {
		redis.Kill()
		for _, admin := range []string{adminA, adminB} {
			waitMetric(t, "http://"+admin+"/metrics", "capgate_registry_stale_seconds", func(s float64) bool {
				return s > 2
			})
			waitBackends(t, admin, 2)
		}
	})
	calls.during(t, "redis is back, and empty", func() {
		redis.Restart()
		for _, admin := range []string{adminA, adminB} {
			waitMetric(t, "http://"+admin+"/metrics", "capgate_registry_stale_seconds", func(s float64) bool {
				return s == 0
			})
			waitBackends(t, admin, 2)
		}
	})
	calls.during(t, "withdrawn", func() {
		registrar.stop(t)
		waitBackends(t, adminA, 1)
		waitBackends(t, adminB, 1)
	})
	calls.end()
	if n := len(first.Seen()); n == 0 {
		t.Error("the backend that registered itself got no calls")
	}
	a.stop(t)
	b.stop(t)
}

func TestRegisterRefused(t *testing.T) {
	t.Parallel()
	p, public, admin := serve(t, nil, "--config", registryConfig(t, ""))
	for _, test := range []struct {
		exit int
		says string
		args []string
	}{
		{2, "HOST:PORT is missing; write capgate register CAPABILITY HOST:PORT", []string{"caps"}},
		{2, "--ttl must be at least 1s", []string{"caps", "127.0.0.1:1", "--ttl", "20ms"}},
		{2, "--weight or --max-concurrent is too large",
			[]string{"caps", "127.0.0.1:1", "--weight", "4294967296"}},
		{2, "want host:port, http://host:port or https://host:port",
			[]string{"caps", "127.0.0.1:1", "--admin", "localhost"}},
		{2, `unexpected argument "extra"`, []string{"caps", "127.0.0.1:1", "extra"}},
		{1, "no fleet is configured for others", []string{"others", "127.0.0.1:1"}},
		{1, "169.254.169.254 is link-local; registration.allow can permit it (ADDRESS_FORBIDDEN)",
			[]string{"caps", "169.254.169.254:80"}},
		{1, "addr: write host:port", []string{"caps", "127.0.0.1"}},
		{1, "ttl: it must be from 1s to 1h0m0s", []string{"caps", "127.0.0.1:1", "--ttl", "2h"}},
		{1, "dialect: must be auto, doc, live or legacy",
			[]string{"caps", "127.0.0.1:1", "--dialect", "klingon"}},
		{1, "capgate register: ", []string{"caps", "127.0.0.1:1", "--admin", public}},
	} {
		exit, stdout, stderr := runProgram(t, []string{"CAPGATE_ADMIN=" + admin},
			append([]string{"register"}, test.args...)...)
		if exit != test.exit || stdout != "" || !strings.Contains(stderr, test.says) {
			t.Errorf("%q: exit status %d: %s; stdout %+v", test.args, exit, stderr, stdout)
		}
	}
	waitBackends(t, admin, 0)
	p.stop(t)
}

// A registrar that never reached a gateway has nothing to withdraw.
func TestRegisterWithoutGateway(t *testing.T) {
	t.Parallel()
	r := start(t, []string{"CAPGATE_ADMIN=" + gatewaytest.Unreachable(t)}, "register", "caps", "127.0.0.1:1")
	r.stderr.wait(t, r, "not registered; retrying")
	r.stop(t)
}
