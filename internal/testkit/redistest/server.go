package redistest

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/process"
)

// Server is one redis-server. Tests use the embedded proxy, whose address stays the same across restarts.
type Server struct {
	*Proxy
	t       TB
	dir     string
	socket  string
	process *process.Process
	direct  *redis.Client // bypasses the proxy
}

// Start runs a redis-server without persistence, until the test ends.
func Start(t TB) *Server {
	t.Helper()
	s := newServer(t)
	s.Proxy = NewProxy(t, "unix", s.socket)
	return s
}

func newServer(t TB) *Server {
	t.Helper()
	dir, err := os.MkdirTemp("", "redis") // t.TempDir may be too long for the path of a socket
	if err != nil {
		t.Fatalf("%v", err)
	}
	check.Cleanup(t, func() { _ = os.RemoveAll(dir) })
	s := &Server{t: t, dir: dir, socket: filepath.Join(dir, "s")}
	s.direct = redis.NewClient(&redis.Options{
		Network: "unix", Addr: s.socket, MaxRetries: -1, DialerRetries: 1, DialTimeout: check.Patience,
		ReadTimeout: check.Patience,
	})
	check.Cleanup(t, func() { _ = s.direct.Close() })
	s.start()
	return s
}

// URL returns the address for Open.
func (s *Server) URL() string { return "redis://" + s.Addr }

func (s *Server) start() {
	s.t.Helper()
	s.process = run(s.t, s.dir, "redis-server", "--port", "0", "--unixsocket", s.socket,
		"--save", "", "--appendonly", "no", "--daemonize", "no", "--dir", s.dir)
	if !answers(s.t, s.process, s.direct) {
		s.t.Fatalf("redis-server ended:\n%s", s.process.Output())
	}
}

// answers waits for PONG. It returns false if the process has ended.
func answers(t TB, p *process.Process, c *redis.Client) bool {
	t.Helper()
	deadline := time.After(check.Patience)
	for again := time.NewTicker(2 * time.Millisecond); ; {
		if c.Ping(context.Background()).Err() == nil {
			again.Stop()
			return true
		}
		select {
		case <-again.C:
		case <-p.Exited():
			return false
		case <-deadline:
			t.Fatalf("redis-server has not answered for %v:\n%s", check.Patience, p.Output())
		}
	}
}

// Kill ends the server at once. Existing connections break, and new ones fail.
func (s *Server) Kill() {
	s.process.Kill()
	_ = os.Remove(s.socket)
}

// Restart kills the server, if it is running, and starts it without data.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.start()
}

// Freeze stops the process: connections stay open, without responses.
func (s *Server) Freeze() {
	s.t.Helper()
	s.process.Signal(s.t, syscall.SIGSTOP)
}

// Thaw ends a Freeze.
func (s *Server) Thaw() {
	s.t.Helper()
	s.process.Signal(s.t, syscall.SIGCONT)
}

// Fill makes the server reject writes, as if its memory were full.
func (s *Server) Fill() {
	s.t.Helper()
	s.Do("CONFIG", "SET", "maxmemory", "1", "maxmemory-policy", "noeviction")
}

// Relieve ends a Fill.
func (s *Server) Relieve() {
	s.t.Helper()
	s.Do("CONFIG", "SET", "maxmemory", "0")
}

// Do sends a command that bypasses the proxy, and returns the response.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	got, err := s.direct.Do(context.Background(), args...).Result()
	if err != nil && err != redis.Nil {
		s.t.Fatalf("redis %v: %v", args, err)
	}
	return got
}
