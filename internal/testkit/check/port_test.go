package check_test

import (
	"net"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestClosedPort refuses connections before, between and after its listeners.
func TestClosedPort(t *testing.T) {
	t.Parallel()
	addr := check.ClosedPort(t)
	for range 3 {
		if _, err := net.Dial("tcp", addr); err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Fatalf("%v", err)
		}
		ln, err := net.Listen("tcp", addr)
		check.Must(t, err)
		client, err := net.Dial("tcp", addr)
		check.Must(t, err)
		server, err := ln.Accept()
		check.Must(t, err)
		_, _, _ = server.Close(), client.Close(), ln.Close()
	}
}
