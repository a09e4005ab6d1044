package check_test

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestClosedPort: the port refuses connections before, between and after its listeners. A server of another program may
// listen again on a port that it had before and that this test uses meanwhile. Then the port is not closed, and the
// test tries another one.
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

// useClosedPort returns an error of net.Listen if another program uses the port.
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
