package check_test

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestClosedPort refuses connections before, between and after its listeners. A server of another program may listen
// again on a port that it had before, and which is in use here meanwhile: then it is not closed, and another one is
// tried.
func TestClosedPort(t *testing.T) {
	t.Parallel()
	for range 3 {
		if err := useClosedPort(t, check.ClosedPort(t)); !errors.Is(err, syscall.EADDRINUSE) {
			check.Must(t, err)
			return
		}
	}
	t.Fatal("another program listens on all ports")
}

// useClosedPort returns an error of net.Listen if the port is another program's.
func useClosedPort(t *testing.T, addr string) error {
	t.Helper()
	for range 3 {
		_, dialed := net.Dial("tcp", addr)
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		if dialed == nil || !strings.Contains(dialed.Error(), "connection refused") {
			t.Fatalf("%v", dialed)
		}
		client, err := net.Dial("tcp", addr)
		check.Must(t, err)
		server, err := ln.Accept()
		check.Must(t, err)
		_, _, _ = server.Close(), client.Close(), ln.Close()
	}
	return nil
}
