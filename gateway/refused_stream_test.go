package gateway_test

import (
	"net"
	"strings"
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

// resets rejects a stream alone; disowns rejects all streams of the connection.
func resets(stream uint32) rawhttp2.Frame { return rawhttp2.Reset(stream, rawhttp2.RefusedStream) }
func disowns(uint32) rawhttp2.Frame       { return rawhttp2.GoAway(0, 0) }

// startRefusing serves a backend that rejects every call after it has run before, like a proxy whose server has
// ended. It returns its address and counts calls.
func startRefusing(t *testing.T, calls *atomic.Int32, before func(c *rawhttp2.Conn, stream uint32) error,
	refuse func(stream uint32) rawhttp2.Frame) string {
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
					if before(c, f.Stream) != nil || c.Write(refuse(f.Stream)) != nil {
						return
					}
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// TestRefusedCallsThatMayHaveRun: REFUSED_STREAM, and a GOAWAY below the stream, prove that a call did not
// start unless something shows that it was accepted. A call that is reset late, or rejected after credit for
// its stream, or rejected by a proxy, is retried only if that does no harm.
func TestRefusedCallsThatMayHaveRun(t *testing.T) {
	t.Parallel()
	atOnce := func(*rawhttp2.Conn, uint32) error { return nil }
	const prompt = 100 * time.Millisecond // a rejection that takes longer is late
	late := func(*rawhttp2.Conn, uint32) error { <-time.After(3 * prompt); return nil }
	credit := func(c *rawhttp2.Conn, stream uint32) error { return c.Write(rawhttp2.WindowUpdate(stream, 1)) }
	for name, test := range map[string]struct {
		before     func(*rawhttp2.Conn, uint32) error
		refuse     func(stream uint32) rawhttp2.Frame
		proxied    bool
		idempotent []string
		repeated   bool
	}{
		"reset at once":                  {atOnce, resets, false, nil, true},
		"reset by a proxy":               {atOnce, resets, true, nil, false},
		"reset, idempotent":              {atOnce, resets, true, []string{gatewaytest.Echo}, true},
		"reset late":                     {late, resets, false, nil, false},
		"reset after more credit":        {credit, resets, false, nil, false},
		"disowned at once":               {atOnce, disowns, false, nil, true},
		"disowned late":                  {late, disowns, false, nil, true}, // servers drain as slowly as they like
		"disowned by a proxy":            {atOnce, disowns, true, nil, false},
		"disowned, idempotent":           {atOnce, disowns, true, []string{gatewaytest.Echo}, true},
		"disowned after more credit":     {credit, disowns, false, nil, false},
		"disowned, credited, idempotent": {credit, disowns, false, []string{gatewaytest.Echo}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			o := gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps",
				Dialect: call.Doc, Backends: []string{startRefusing(t, &calls, test.before, test.refuse),
					startRefusing(t, &calls, test.before, test.refuse)},
				Unprobed: true, Retries: router.Retries{Proxy: test.proxied}, Idempotent: test.idempotent}}}
			if strings.HasSuffix(name, "late") {
				o.Relay.Forwarding.RefusedWithin = prompt
			}
			_, err := gatewaytest.Start(t, o).Invoke(t.Context(), "caps", request(gatewaytest.Echo, `{}`))
			if n := calls.Load(); status.Code(err) != codes.Unavailable || (n > 1) != test.repeated {
				t.Errorf("sent %d times, %v", n, err)
			}
		})
	}
}
