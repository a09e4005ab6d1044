package redistest

import (
	"slices"
	"strings"
	"syscall"

	"github.com/capgate/capgate/internal/testkit/check"
)

// slots is the number of hash slots of a Cluster.
const slots = 16384

// Cluster is three masters without replicas.
type Cluster struct {
	nodes []*node
}

// StartCluster runs a Cluster until the test ends. It returns when each node knows all others.
func StartCluster(t TB) *Cluster {
	t.Helper()
	c := &Cluster{}
	buses := map[*node]string{}
	for range 3 {
		var bus string
		n := startNode(t, "redis-server", func(dir, port, other string) []string {
			bus = other
			return append(plain(dir, port), "--cluster-enabled", "yes", "--cluster-port", bus,
				"--cluster-node-timeout", "60000")
		})
		c.nodes, buses[n] = append(c.nodes, n), bus
	}
	for i, n := range c.nodes {
		n.do(t, "CLUSTER", "ADDSLOTSRANGE", i*slots/3, (i+1)*slots/3-1)
		n.do(t, "CLUSTER", "SET-CONFIG-EPOCH", i+1)
		for _, other := range c.nodes[:i] {
			n.do(t, "CLUSTER", "MEET", other.host, other.port, buses[other])
		}
	}
	for _, n := range c.nodes {
		check.Holds(t, "the cluster", func() bool {
			info, _ := n.do(t, "CLUSTER", "INFO").(string)
			known, _ := n.do(t, "CLUSTER", "NODES").(string)
			return strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, "cluster_slots_assigned:16384") && strings.Count(known, "connected") == 3 &&
				!strings.Contains(known, "disconnected") && !strings.Contains(known, "handshake")
		})
	}
	return c
}

// Do sends a command to every node.
func (c *Cluster) Do(t TB, args ...any) {
	t.Helper()
	for _, n := range c.nodes {
		n.do(t, args...)
	}
}

// NodeOf returns the index of the node that has a key.
func (c *Cluster) NodeOf(t TB, key string) int {
	t.Helper()
	slot, _ := c.nodes[0].do(t, "CLUSTER", "KEYSLOT", key).(int64)
	for i := range c.nodes {
		if int(slot) < (i+1)*slots/3 {
			return i
		}
	}
	return -1
}

// Kill ends a node at once. The others do not notice during a test.
func (c *Cluster) Kill(i int) { c.nodes[i].process.Kill() }

// Freeze stops a node: connections stay open, without responses.
func (c *Cluster) Freeze(t TB, i int) {
	t.Helper()
	c.nodes[i].process.Signal(t, syscall.SIGSTOP)
}

// Thaw ends a Freeze.
func (c *Cluster) Thaw(t TB, i int) {
	t.Helper()
	c.nodes[i].process.Signal(t, syscall.SIGCONT)
}

// URL returns the address for Open.
func (c *Cluster) URL() string {
	var addrs []string
	for _, n := range slices.Backward(c.nodes) {
		addrs = append(addrs, n.addr())
	}
	return "redis+cluster://" + strings.Join(addrs, ",")
}
