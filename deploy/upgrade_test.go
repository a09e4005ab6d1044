package deploy

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// upgrade is a fleet behind a real haproxy whose version changes while clients of each protocol make calls.
type upgrade struct {
	fleet
	t        *testing.T
	key      string // of the callers
	approver string // key of an approver
	load     *load
	hooks    *hooks // receives notices

	capabilities []*gatewaytest.Capability // at the two backends
	spare        string                    // address of a backend that is drained
	writers      int                       // number of writers of state so far

	mu     sync.Mutex
	leaves int // index of the draining replica; -1 for none
}

// upgradeConfig has only fields that exist in all versions. The replicas of both versions read it.
const upgradeConfig = `
redis: {url: '$redis', timeout: 5s}
replicas: {heartbeat: 500ms}
secret_file: '$dir/secret'
trusted_proxies: {from: [127.0.0.1/32], hops: 1}
proxy_protocol: v2
drain: {delay: 3s}
policies: {}
identity: {store: redis}
tenants: [{id: default, capabilities: ['*'], keys: [$key, $approver]}]
registration: {capabilities: ['registered-*'], policy: allow, allow: [127.0.0.0/8]}
approvals: {notices: [{name: hooks, url: '$hooks', secret_file: '$dir/secret', events: [denied]}]}
fleets:
  - {capability: caps, policy: allow, manifest: '$dir/caps.yaml', affinity: session, idempotency: {grpc: true},
     backends: ['$one', '$two']}
  - {capability: people, policy: ask, backends: ['$one']}
  - {capability: spare, policy: allow, backends: ['$one', '$spare']}
  - {capability: listed, policy: allow, manifest: '$dir/listed.yaml', discovery: {interval: 1h}, backends: ['$two']}
`

const upgradeManifest = `
id: caps
image: x
tools:
  - {name: echo, description: Repeats., input_schema: {type: object}, recommended_policy: allow}
  - {name: fail, description: Fails., input_schema: {type: object}, recommended_policy: allow}
`

// TestUpgrade: a fleet is upgraded from the former version to the newest, replica by replica, and back. Both versions
// share the state in Redis: state written by one is in effect in the other. Under load over each protocol, no call
// fails. By default, both versions are the current program, so that every run tests the procedure; -former selects
// another one.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	old := formerProgram(t)
	u := startUpgrade(t)
	u.start(t, 0, old)
	u.start(t, 1, old)
	u.startHaproxy(t)
	check.Succeeds(t, "a call through haproxy", func() error {
		_, _, err := u.invoke(t.Context(), u.key, echo("{}"))
		return err
	})
	u.load = u.startLoad(t)
	defer u.load.end(t) // before the replicas end

	upward := u.write(t, old, 0)
	u.load.during(t, "the new version joins the former", func() { u.start(t, 2, capgate) })
	u.load.during(t, "the new version replaces the former", func() {
		u.replace(t, 0, capgate)
		u.replace(t, 1, capgate)
	})
	u.checks(t, "the new version", upward)

	if *former == "" {
		return // the way back would be the same
	}
	downward := u.write(t, capgate, 0)
	u.load.during(t, "the former version joins the new", func() { u.replace(t, 0, old) })
	u.load.during(t, "the former version replaces the new", func() {
		u.replace(t, 1, old)
		u.replace(t, 2, old)
	})
	u.checks(t, "the former version again", downward)
}

// startUpgrade starts the dependencies of the replicas.
func startUpgrade(t *testing.T) *upgrade {
	t.Helper()
	network := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), rand.IntN(256))
	u := &upgrade{t: t, leaves: -1}
	u.host = func(n int) string { return fmt.Sprint(network, n) }
	u.gateways = make([]*process, 3)
	u.capabilities = []*gatewaytest.Capability{gatewaytest.NewCapability("one"), gatewaytest.NewCapability("two")}
	u.spare = slow{u.capabilities[1]}.serve(t)
	dir := t.TempDir()
	newKey := func(fields string) (key, entry string) {
		key, entry = command(t, capgate, "keys", "new")
		_, entry, _ = strings.Cut(entry, "\n- ")
		return strings.TrimSpace(key), strings.TrimSuffix(strings.TrimSpace(entry), "}") + fields
	}
	var entry, approver string
	u.key, entry = newKey(", scopes: [invoke, read], asserts: [user]}")
	u.approver, approver = newKey(", scopes: [approve]}")
	u.hooks = &hooks{held: map[string]*heldNotice{}}
	server := httptest.NewServer(u.hooks)
	t.Cleanup(server.Close)
	u.lists("at first")
	values := map[string]string{"redis": redistest.Start(t).URL(), "dir": dir, "key": entry, "approver": approver,
		"hooks": server.URL,
		"one":   slow{u.capabilities[0]}.serve(t), "two": slow{u.capabilities[1]}.serve(t),
		"spare": u.spare}
	for name, text := range map[string]string{
		"secret":       base64.StdEncoding.EncodeToString(make([]byte, 32)),
		"caps.yaml":    upgradeManifest,
		"listed.yaml":  "id: listed\nimage: x\ntool_source: dynamic\n",
		"capgate.yaml": os.Expand(upgradeConfig, func(name string) string { return values[name] }),
	} {
		check.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	u.file = filepath.Join(dir, "capgate.yaml")
	return u
}

// start starts a replica of a program.
func (u *upgrade) start(t *testing.T, i int, program string) {
	t.Helper()
	p := start(t, program, "serve", "--config", u.file, "--listen", u.host(i+1)+publicPort, "--admin",
		u.host(i+1)+adminPort)
	p.wait(t, `"msg":"serving"`)
	if u.load != nil {
		p.wait(t, `"msg":"call"`) // haproxy has found it
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.gateways[i], u.leaves = p, -1
}

// replace stops a replica as an orchestrator does, and starts it with another program.
func (u *upgrade) replace(t *testing.T, i int, program string) {
	t.Helper()
	u.mu.Lock()
	u.leaves = i
	p := u.gateways[i]
	u.mu.Unlock()
	check.Must(t, p.cmd.Process.Signal(syscall.SIGTERM))
	check.Received(t, p.exited, "the end of a replica")
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("replica %d ended with %d", i, code)
	}
	u.start(t, i, program)
}

// admin returns the address of the admin API of a replica that stays.
func (u *upgrade) admin() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []string
	for i, p := range u.gateways {
		if i != u.leaves && p != nil {
			all = append(all, u.host(i+1)+adminPort)
		}
	}
	return all[rand.IntN(len(all))]
}

// slow is a capability with the tool long, whose stream lasts longer than drain.delay.
type slow struct{ *gatewaytest.Capability }

const (
	long     = "long" // sends half of its arguments, and the rest after longTime
	longTime = 4 * time.Second
)

// serve runs the capability until the end of the test.
func (c slow) serve(t *testing.T) string {
	t.Helper()
	return gatewaytest.Serve(t, func(s *grpc.Server) { docpb.RegisterCapabilityServer(s, c) }).Addr
}

// StreamInvoke runs the tool long.
func (c slow) StreamInvoke(req *docpb.InvokeRequest, stream grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
	if req.GetToolName() != long {
		return c.Capability.StreamInvoke(req, stream)
	}
	half := len(req.GetArgsJson()) / 2
	if err := stream.Send(&docpb.InvokeChunk{Data: req.GetArgsJson()[:half]}); err != nil {
		return err
	}
	rest := time.NewTimer(longTime)
	defer rest.Stop()
	select {
	case <-rest.C:
	case <-stream.Context().Done():
		return stream.Context().Err()
	}
	return stream.Send(&docpb.InvokeChunk{Data: req.GetArgsJson()[half:], Done: true})
}
