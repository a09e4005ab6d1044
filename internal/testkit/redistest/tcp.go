package redistest

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/process"
)

// node is a server that others reach by the address that it announces, so it has no proxy.
type node struct {
	host, port string
	process    *process.Process
	direct     *redis.Client
}

func (n *node) addr() string { return net.JoinHostPort(n.host, n.port) }

// startNode runs name on a free port. args receives the port and another free one.
func startNode(t TB, name string, args func(dir, port, other string) []string) *node {
	t.Helper()
	for range 20 {
		dir, err := os.MkdirTemp("", "redis")
		if err != nil {
			t.Fatalf("%v", err)
		}
		check.Cleanup(t, func() { _ = os.RemoveAll(dir) })
		n := &node{host: "127.0.0.1", port: freePort(t)}
		n.process = run(t, dir, name, args(dir, n.port, freePort(t))...)
		n.direct = redis.NewClient(&redis.Options{Addr: n.addr(), MaxRetries: -1, DialerRetries: 1,
			DialTimeout: check.Patience, ReadTimeout: check.Patience})
		check.Cleanup(t, func() { _ = n.direct.Close() })
		if answers(t, n.process, n.direct) && ours(n) {
			return n
		}
		n.process.Kill() // another process has the port
	}
	t.Fatalf("%s: no port is free", name)
	return nil
}

// ours reports whether this process responds on the port.
func ours(n *node) bool {
	info, err := n.direct.Info(context.Background(), "server").Result()
	return err == nil && strings.Contains(info, "process_id:"+strconv.Itoa(n.process.PID())+"\r")
}

// freePort returns a free port below the ephemeral range, from which the kernel assigns ports to others.
func freePort(t TB) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(15_000 + rand.IntN(15_000))
		if ln, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = ln.Close()
			return port
		}
	}
	t.Fatalf("no port is free")
	return ""
}

// do sends a command and returns the response.
func (n *node) do(t TB, args ...any) any {
	t.Helper()
	got, err := n.direct.Do(context.Background(), args...).Result()
	if err != nil {
		t.Fatalf("%s: %v: %v", n.addr(), args, err)
	}
	return got
}

// info waits until a section of INFO contains all of the given texts.
func (n *node) info(t TB, section string, says ...string) {
	t.Helper()
	check.Holds(t, n.addr()+" to say "+strings.Join(says, " "), func() bool {
		info, err := n.direct.Info(context.Background(), section).Result()
		for _, s := range says {
			if err != nil || !strings.Contains(info, s) {
				return false
			}
		}
		return true
	})
}

// Plain is a server without a proxy, for measurements.
type Plain struct {
	t TB
	n *node
}

// StartPlain runs a redis-server with further arguments until the test ends.
func StartPlain(t TB, args ...string) *Plain {
	t.Helper()
	return &Plain{t, startNode(t, "redis-server", func(dir, port, _ string) []string {
		return append(plain(dir, port), args...)
	})}
}

// URL returns the address for Open.
func (p *Plain) URL() string { return "redis://" + p.n.addr() }

// Do sends a command and returns the answer.
func (p *Plain) Do(args ...any) any {
	p.t.Helper()
	return p.n.do(p.t, args...)
}
