package redistest

import "strings"

// Replicated is a master with a replica that can lag, and be promoted with its data.
type Replicated struct {
	t               TB
	master, replica *node
	link            *Proxy // from the replica to the master
}

// StartReplicated runs both until the test ends. It returns when the replica is in sync.
func StartReplicated(t TB) *Replicated {
	t.Helper()
	r := &Replicated{t: t}
	r.master = startNode(t, "redis-server", func(dir, port, _ string) []string { return plain(dir, port) })
	r.link = NewProxy(t, "tcp", r.master.addr())
	host, port, _ := strings.Cut(r.link.Addr, ":")
	r.replica = startNode(t, "redis-server", func(dir, own, _ string) []string {
		return append(plain(dir, own), "--replicaof", host, port)
	})
	r.master.info(t, "replication", "state=online")
	return r
}

// URL returns the address of the master.
func (r *Replicated) URL() string { return "redis://" + r.master.addr() }

// Do sends a command to the master and to the replica.
func (r *Replicated) Do(t TB, args ...any) {
	t.Helper()
	for _, n := range []*node{r.master, r.replica} {
		n.do(t, args...)
	}
}

// Lag stops the replication. The master still counts the replica as connected.
func (r *Replicated) Lag() { r.link.BlackHole() }

// CatchUp ends a Lag.
func (r *Replicated) CatchUp() { r.link.Heal() }

// Promote kills the master, promotes the replica, and returns its address.
func (r *Replicated) Promote() string {
	r.t.Helper()
	r.master.process.Kill()
	r.replica.do(r.t, "REPLICAOF", "NO", "ONE")
	r.replica.info(r.t, "replication", "role:master")
	return "redis://" + r.replica.addr()
}
