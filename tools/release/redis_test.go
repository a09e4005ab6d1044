package main

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// A redisServer is a redis-server on a Unix socket, and a port that forwards to it.
type redisServer struct{ url, socket string }

// startRedis runs a redis-server until the end of the test.
func startRedis(t *testing.T) redisServer {
	t.Helper()
	dir, err := os.MkdirTemp("", "redis") // the path of a Unix socket must be short
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	start(t, exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--dir", dir, "--save", ""),
		"ready to accept")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait() // each connection ends with its client
	})
	running.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return // closed
			}
			running.Go(func() { join(from, socket) })
		}
	})
	return redisServer{"redis://" + listener.Addr().String(), socket}
}

// join connects a client to a socket until either ends.
func join(from net.Conn, socket string) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer func() { _ = to.Close() }()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(from, to) // until an end
		_ = from.Close()
	})
	_, _ = io.Copy(to, from)
	_ = to.Close()
	back.Wait()
}

// clients returns the list of the server's clients.
func (r redisServer) clients(t *testing.T) string {
	t.Helper()
	return command(t, exec.Command("redis-cli", "-s", r.socket, "client", "list"))
}
