package redistest

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/capgate/capgate/internal/testkit/check"
)

// masterName is the master's name at Sentinel.
const masterName = "mymaster"

// Sentinel is a master with a replica, and a Sentinel that monitors them.
type Sentinel struct {
	t        TB
	servers  [2]*node
	sentinel *node
}

// StartSentinel runs them until the test ends. It returns when the replica can be promoted.
func StartSentinel(t TB) *Sentinel {
	t.Helper()
	s := &Sentinel{t: t}
	s.servers[0] = startNode(t, "redis-server", func(dir, port, _ string) []string { return plain(dir, port) })
	s.servers[1] = startNode(t, "redis-server", func(dir, port, _ string) []string {
		return append(plain(dir, port), "--replicaof", s.servers[0].host, s.servers[0].port)
	})
	s.servers[0].info(t, "replication", "state=online")
	s.sentinel = startNode(t, "redis-sentinel", func(dir, port, _ string) []string {
		file := filepath.Join(inMemory(t, dir), "sentinel.conf")
		// It fails over on request, not because the machine is busy.
		text := fmt.Sprintf("port %s\nbind 127.0.0.1\nsentinel monitor %s %s %s 1\nsentinel "+
			"down-after-milliseconds %[2]s 60000\nsentinel failover-timeout %[2]s 30000\n",
			port, masterName, s.servers[0].host, s.servers[0].port)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatalf("%v", err)
		}
		return []string{file}
	})
	s.sentinel.info(t, "sentinel", "status=ok", "slaves=1")
	return s
}

// inMemory returns a directory in memory, or the given one if there is none. Sentinel syncs its file to disk, and
// mistakes the wait for a busy disk for a jump of the clock: it then does nothing for 30 s.
func inMemory(t TB, dir string) string {
	t.Helper()
	memory, err := os.MkdirTemp("/dev/shm", "sentinel")
	if err != nil {
		return dir
	}
	t.Cleanup(func() { _ = os.RemoveAll(memory) })
	return memory
}

func plain(dir, port string) []string {
	return []string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir,
		"--repl-diskless-sync-delay", "0"}
}

// URL returns the address for Open.
func (s *Sentinel) URL() string {
	return "redis+sentinel://" + s.sentinel.addr() + "/" + masterName
}

// Do sends a command to the master and to the replica.
func (s *Sentinel) Do(t TB, args ...any) {
	t.Helper()
	for _, n := range s.servers {
		n.do(t, args...)
	}
}

// Failover kills the master and returns when the replica is the master, also according to Sentinel. It works once.
func (s *Sentinel) Failover() {
	s.t.Helper()
	s.servers[0].process.Kill()
	check.Holds(s.t, "a replica that Sentinel takes for good", func() bool {
		return s.sentinel.direct.Do(s.t.Context(), "SENTINEL", "FAILOVER", masterName).Err() == nil
	})
	s.servers[1].info(s.t, "replication", "role:master")
	check.Holds(s.t, "Sentinel to know", func() bool {
		addr, err := s.sentinel.direct.Do(s.t.Context(), "SENTINEL", "GET-MASTER-ADDR-BY-NAME",
			masterName).StringSlice()
		return err == nil && len(addr) == 2 && addr[1] == s.servers[1].port
	})
}
