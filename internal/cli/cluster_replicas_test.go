package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/internal/testkit/redistest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Gateways die and are replaced; only their own callers notice.
func TestClusterLosesReplicas(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 3)
	c.agree(t, c.gateways)
	c.killReplica(t)
	c.restartGateways(t)
	c.twice(t)
}

// killReplica kills the gateway that probes a backend. Others take over: they notice when the backend dies too.
func (c *cluster) killReplica(t *testing.T) {
	t.Helper()
	b := c.backends[0]
	victim, others := c.prober(t, b.addr)
	c.under(t, "a gateway is killed", others, nil, func() {
		victim.kill()
		c.agree(t, others)
	})
	c.killBackend(t, b, others)
	c.startBackend(t, b)
	c.startGateway(t, victim)
	c.wait(t, "all to be up again", c.gateways, allUp)
	c.agree(t, c.gateways)
}

// prober finds the gateway that probes a backend.
func (c *cluster) prober(t *testing.T, addr string) (prober *member, others []*member) {
	t.Helper()
	for _, b := range c.gateways[0].fleet(t).Backends {
		if b.Addr != addr {
			continue
		}
		i := slices.IndexFunc(c.gateways, func(g *member) bool { return g.id == b.ProbedBy })
		if i < 0 {
			break
		}
		return c.gateways[i], slices.Delete(slices.Clone(c.gateways), i, i+1)
	}
	t.Fatalf("no gateway probes %s", addr)
	return nil, nil
}

// restartGateways replaces them one after another, behind a client that knows them all.
func (c *cluster) restartGateways(t *testing.T) {
	t.Helper()
	l := &load{tools: []string{writeTool}}
	l.start(t, 8, dialAll(t, c.gateways))
	l.during(t, "gateways are restarted", func() {
		for _, g := range c.gateways {
			g.stop(t)
			c.startGateway(t, g)
			g.stderr.wait(t, g.program, `"msg":"call"`) // the client has found it
		}
	})
	l.end()
}

// dialAll returns a client that alternates between gateways and requests the health of each.
func dialAll(t *testing.T, gateways []*member) docpb.CapabilityClient {
	t.Helper()
	var state resolver.State
	for _, g := range gateways {
		state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: g.addr}}})
	}
	names := manual.NewBuilderWithScheme("gateways")
	names.InitialState(state)
	conn, err := clienttest.NewConn("gateways:///all", grpc.WithResolvers(names),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultServiceConfig(
			`{"loadBalancingConfig": [{"round_robin": {}}], "healthCheckConfig": {"serviceName": ""}}`))
	check.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return docpb.NewCapabilityClient(conn)
}

// A gateway whose packets to the backends are dropped sees all of them as dead, and does not eject any for the
// others.
func TestClusterWithABlackHole(t *testing.T) {
	t.Parallel()
	c := startBackends(t, 3)
	var proxies []*redistest.Proxy
	var addrs []string
	for _, b := range c.backends {
		p := redistest.NewProxy(t, "tcp", b.addr)
		proxies, addrs = append(proxies, p), append(addrs, p.Addr)
	}
	c.startGateways(t, 2*time.Second, addrs)
	c.agree(t, c.gateways)
	victim, others := c.prober(t, addrs[0])
	c.under(t, "a gateway is in a black hole", others, nil, func() {
		for _, p := range proxies {
			p.BlackHoleOf(connectionsOf(t, victim.cmd.Process.Pid))
		}
		c.waitVote(t, addrs[0], 0, victim.id+" says down",
			func(state, by string) bool { return state == "2" && by == victim.id })
		c.waitVote(t, addrs[0], 1, "another says up", func(state, by string) bool {
			return state == "1" && by != victim.id
		})
		c.wait(t, "the others to know better", others, allUp)
	})
	for _, p := range proxies {
		p.Heal()
	}
	c.wait(t, "the black hole to be over", c.gateways, allUp)
	c.agree(t, c.gateways)
}

// waitVote waits for a vote in Redis.
func (c *cluster) waitVote(t *testing.T, addr string, slot int, what string, so func(state, by string) bool) {
	t.Helper()
	check.Until(t, "a vote, "+what, func() (bool, string) {
		vote, _ := c.redis.Do("HGET", boardKey, fmt.Sprintf("caps %s %d", addr, slot)).(string)
		f := strings.Fields(vote)
		return len(f) > 6 && so(f[2], f[6]), fmt.Sprintf("%q", vote)
	})
}

// connectionsOf reports whether a process has the other end of a connection that was accepted here.
func connectionsOf(t *testing.T, pid int) func(accepted net.Conn) bool {
	var known sync.Map
	return func(accepted net.Conn) bool {
		theirs, ok := known.Load(accepted)
		if !ok {
			theirs = owns(t, pid, accepted)
			known.Store(accepted, theirs)
		}
		return theirs.(bool)
	}
}

// owns looks for the connection's other end among the sockets of a process.
func owns(t *testing.T, pid int, accepted net.Conn) bool {
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Error(err)
		return false
	}
	port := func(a net.Addr) string { return fmt.Sprintf(":%04X", a.(*net.TCPAddr).Port) }
	for line := range strings.Lines(string(table)) {
		// number, local address, remote address, …, inode
		f := strings.Fields(line)
		if len(f) < 10 || !strings.HasSuffix(f[1], port(accepted.RemoteAddr())) ||
			!strings.HasSuffix(f[2], port(accepted.LocalAddr())) {
			continue
		}
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		return slices.ContainsFunc(files, func(file string) bool {
			name, err := os.Readlink(file)
			return err == nil && name == "socket:["+f[9]+"]"
		})
	}
	return false
}
