package cli

import (
	"net"
	"strings"
	"testing"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// TestListenInANetwork: the admin API listens at the machine's address in a network, and nowhere else.
func TestListenInANetwork(t *testing.T) {
	t.Parallel()
	file := writeConfig(t, configOf("", gatewaytest.NewCapability("first").Serve(t, call.Doc).Addr))
	_, _, admin := serve(t, nil, "--config", file, "--admin", "127.0.0.0/8:0")
	host, port, err := net.SplitHostPort(admin)
	if err != nil || host != "127.0.0.1" {
		t.Fatal(admin, err, host)
	}
	if conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.2", port)); err == nil {
		_ = conn.Close()
		t.Error("another address answers, too")
	}
	exit, _, stderr := runProgram(t, nil, "serve", "--config", file, "--listen", "127.0.0.1:0", "--admin",
		"[2001:db8:7::/64]:0")
	if exit == 0 || !strings.Contains(stderr, "this machine has no address in the network 2001:db8:7::/64") {
		t.Errorf("got %d %s", exit, stderr)
	}
}
