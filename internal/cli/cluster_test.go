package cli

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// The tools that callers of a cluster call.
const (
	readTool  = "read"  // may run twice
	writeTool = "write" // must not
)

// cluster is a set of gateways with one Redis, and the backends of "caps", each a process with a fixed address.
type cluster struct {
	redis    *redistest.Server
	host     string // of all addresses
	file     string
	gateways []*member
	backends []*member
	ran      []*program // every backend ever started
}

// member is a process of a cluster. Another replaces it when it has ended.
type member struct {
	*program
	addr  string
	admin string // of a gateway
	id    string // of a gateway, as a replica
}

// startCluster runs backends and three gateways, and returns when all gateways report all backends as up.
func startCluster(t *testing.T, backends int) *cluster {
	t.Helper()
	c := startBackends(t, backends)
	var addrs []string
	for _, b := range c.backends {
		addrs = append(addrs, b.addr)
	}
	c.startGateways(t, time.Second, addrs)
	return c
}

// startBackends runs a cluster without gateways.
func startBackends(t *testing.T, n int) *cluster {
	t.Helper()
	// No other program uses this address, and its ports are not ephemeral ones of the kernel, so that a
	// restarted process finds its port free.
	host := fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
	c := &cluster{redis: redistest.Start(t), host: host}
	for i := range n {
		b := &member{addr: net.JoinHostPort(host, strconv.Itoa(20_001+i))}
		c.backends = append(c.backends, b)
		c.startBackend(t, b)
	}
	return c
}

// startGateways runs three gateways with backends at these addresses and this probe interval.
func (c *cluster) startGateways(t *testing.T, interval time.Duration, backends []string) {
	t.Helper()
	c.file = writeConfig(t, clusterConfig(c.redis.URL(), interval, backends))
	for i := range 3 {
		g := &member{addr: net.JoinHostPort(c.host, strconv.Itoa(20_101+i))}
		c.gateways = append(c.gateways, g)
		c.startGateway(t, g)
	}
	c.wait(t, "all to be up", c.gateways, allUp)
}

// clusterConfig returns a configuration of gateways that notice failures of backends soon, and that wait for Redis on a
// busy machine. The readers' tool may be called twice.
func clusterConfig(redis string, interval time.Duration, backends []string) string {
	more := fmt.Sprintf("redis: {url: '%s', timeout: 10s}\nreplicas: {heartbeat: 500ms}", redis)
	fleet := fmt.Sprintf("idempotent: [%s], health: {interval: %v, timeout: %[2]v}, ejection: {base: 500ms}", readTool,
		interval)
	return strings.Replace(configOf(more, backends...), patientProbes, fleet, 1)
}

func (c *cluster) startBackend(t *testing.T, b *member, env ...string) {
	t.Helper()
	b.program = startBackend(t, b.addr, env...)
	c.ran = append(c.ran, b.program)
}

func (c *cluster) startGateway(t *testing.T, g *member) {
	t.Helper()
	g.program, _, g.admin = serve(t, nil, "--config", c.file, "--listen", g.addr)
	g.id = attribute(g.stderr.String(), "replica")
}

func (m *member) kill() {
	_ = m.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
	<-m.exited
}

// fleet returns a gateway's state of "caps".
func (m *member) fleet(t *testing.T) *capgatepb.Fleet {
	t.Helper()
	_, body := page(t, "http://"+m.admin+"/v1/fleets")
	all := new(capgatepb.ListFleetsResponse)
	check.Must(t, protojson.Unmarshal([]byte(body), all))
	if len(all.Fleets) != 1 {
		t.Fatal(body)
	}
	return all.GetFleets()[0]
}

// wait waits until a condition holds at all the given gateways.
func (c *cluster) wait(t *testing.T, what string, gateways []*member, so func(*capgatepb.Fleet) bool) {
	t.Helper()
	check.Until(t, what, func() (bool, string) {
		for i, g := range gateways {
			if f := g.fleet(t); !so(f) {
				return false, fmt.Sprintf("gateway %d of %d says %+v", i, len(gateways), f)
			}
		}
		return true, ""
	})
}

func allUp(f *capgatepb.Fleet) bool {
	for _, b := range f.Backends {
		if b.State != "up" {
			return false
		}
	}
	return int(f.GetUsable()) == len(f.GetBackends())
}

// only reports whether a backend has a state, and all others are up.
func only(addr, state string) func(*capgatepb.Fleet) bool {
	return func(f *capgatepb.Fleet) bool {
		for _, b := range f.Backends {
			if b.Addr == addr && b.State != state || b.Addr != addr && b.State != "up" {
				return false
			}
		}
		return true
	}
}

// agree waits until gateways report the same state and the same prober of every backend.
func (c *cluster) agree(t *testing.T, gateways []*member) {
	t.Helper()
	live := map[string]bool{}
	for _, g := range gateways {
		live[g.id] = true
	}
	said := func(f *capgatepb.Fleet) string {
		var text strings.Builder
		for _, b := range f.Backends {
			if !live[b.ProbedBy] {
				return ""
			}
			fmt.Fprintln(&text, b.Addr, b.State, b.ProbedBy)
		}
		return text.String()
	}
	c.wait(t, "gateways to agree", gateways, func(f *capgatepb.Fleet) bool {
		text := said(f)
		return text != "" && text == said(gateways[0].fleet(t))
	})
}

// clients returns one client for each gateway.
func clients(t *testing.T, gateways []*member) []docpb.CapabilityClient {
	t.Helper()
	all := make([]docpb.CapabilityClient, len(gateways))
	for i, g := range gateways {
		all[i] = dial(t, g.addr)
	}
	return all
}

// underCallers is the number of callers of a gateway.
const underCallers = 4

// under runs reads and writes through each of the given gateways before, while and after during runs. Only
// excused failures are permitted.
func (c *cluster) under(t *testing.T, what string, gateways []*member, excuse func(failure) bool, happens func()) {
	t.Helper()
	l := &load{tools: []string{readTool, writeTool}, excuse: excuse}
	l.start(t, underCallers, clients(t, gateways)...)
	l.during(t, what, happens)
	l.end()
}

// twice fails the test if a write reached backends more than once.
func (c *cluster) twice(t *testing.T) {
	t.Helper()
	all := map[string]int{}
	for _, p := range c.ran {
		deliveries(all, p)
	}
	for id, n := range all {
		if strings.HasSuffix(id, writeTool) && n > 1 {
			t.Errorf("the backends got call %s %d times", id, n)
		}
	}
	t.Logf("the backends got %d calls", len(all))
}
