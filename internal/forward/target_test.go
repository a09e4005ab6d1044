package forward

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestAddresses: a connection goes to an address that takes it, and the next one begins with the address after it.
func TestAddresses(t *testing.T) {
	t.Parallel()
	open, err := net.Listen("tcp", "127.0.77.2:0")
	check.Must(t, err)
	t.Cleanup(func() { _ = open.Close() })
	_, port, err := net.SplitHostPort(open.Addr().String())
	check.Must(t, err)
	to := newTarget(endpoint{host: "gateway", port: port}, slog.New(slog.DiscardHandler))
	all := []netip.Addr{netip.MustParseAddr("127.0.77.3"), netip.MustParseAddr("127.0.77.1"),
		netip.MustParseAddr("127.0.77.2"), netip.MustParseAddr("::ffff:127.0.77.2")}
	to.lookup = func(context.Context, string, string) ([]netip.Addr, error) { return all, nil }
	for range 3 {
		nc, err := to.dial(t.Context())
		check.Must(t, err)
		if got := nc.RemoteAddr().String(); got != open.Addr().String() {
			t.Errorf("it is connected with %s", got)
		}
		_ = nc.Close()
		if got := to.inTurn(all); len(got) != 3 || got[0] != all[0] || got[1] != all[1] {
			t.Errorf("the next are %v", got)
		}
	}
	all = all[:2]
	if nc, err := to.dial(t.Context()); err == nil {
		t.Errorf("%v took the connection", nc.RemoteAddr())
	}
}
