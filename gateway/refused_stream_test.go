package gateway_test

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
	"github.com/capgate/capgate/router"
)

// startRefusing serves a backend that answers every call with REFUSED_STREAM, after it has done what before does, as a
// proxy does whose server ended. It returns its address, and counts calls.
func startRefusing(t *testing.T, calls *atomic.Int32, before func(c *rawhttp2.Conn, stream uint32) error) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	check.Cleanup(t, func() { _ = ln.Close() })
	go func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			check.Cleanup(t, func() { _ = nc.Close() })
			go func() {
				c := rawhttp2.New(nc)
				if c.Welcome() != nil {
					return
				}
				for {
					f, err := c.Wait(func(f rawhttp2.Frame) bool { return f.Type == rawhttp2.TypeHeaders })
					if err != nil {
						return
					}
					calls.Add(1)
					if before(c, f.Stream) != nil || c.Write(rawhttp2.Reset(f.Stream, rawhttp2.RefusedStream)) != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// TestRefusedCallsThatMayHaveRun: REFUSED_STREAM is trusted while nothing shows that the call was accepted. A call that
// is refused late, or after credit for its stream, or by a proxy, is repeated only where that does no harm.
func TestRefusedCallsThatMayHaveRun(t *testing.T) {
	t.Parallel()
	atOnce := func(*rawhttp2.Conn, uint32) error { return nil }
	for name, test := range map[string]struct {
		before     func(*rawhttp2.Conn, uint32) error
		proxied    bool
		idempotent []string
		repeated   bool
	}{
		"at once":           {atOnce, false, nil, true},
		"of a proxy":        {atOnce, true, nil, false},
		"idempotent":        {atOnce, true, []string{gatewaytest.Echo}, true},
		"late":              {func(*rawhttp2.Conn, uint32) error { <-time.After(300 * time.Millisecond); return nil }, false, nil, false},
		"after more credit": {func(c *rawhttp2.Conn, stream uint32) error { return c.Write(rawhttp2.WindowUpdate(stream, 1)) }, false, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps", Dialect: call.Doc,
				Backends: []string{startRefusing(t, &calls, test.before), startRefusing(t, &calls, test.before)}, Unprobed: true,
				Retries: router.Retries{Proxy: test.proxied}, Idempotent: test.idempotent}}})
			_, err := g.Invoke(t.Context(), "caps", request(gatewaytest.Echo, `{}`))
			if n := calls.Load(); status.Code(err) != codes.Unavailable || (n > 1) != test.repeated {
				t.Errorf("sent %d times, %v", n, err)
			}
		})
	}
}
