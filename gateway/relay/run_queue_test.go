package relay_test

import (
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// TestShortRequestsOvertakeLongOnes: a single call is served before the rest of another client's thousands of calls.
func TestShortRequestsOvertakeLongOnes(t *testing.T) {
	for name, rig := range map[string]func(*testing.T, relay.Config) *rig{"cleartext": newRig, "TLS": newTLSRig} {
		t.Run(name, func(t *testing.T) {
			const calls = 1500
			g := rig(t, relay.Config{Shards: 1, HTTP2: relay.HTTP2{MaxStreams: calls}})
			var served atomic.Int64
			begun, brought := make(chan struct{}), make(chan struct{})
			was := g.handler.headers
			g.handler.headers = func(s *relay.Stream) {
				switch s.Path() {
				case "/refuse/first":
					close(begun)
					<-brought
				case "/refuse/one":
					t.Logf("%d calls were served before", served.Load())
					if served.Load() > calls/2 {
						t.Error("served last")
					}
				}
				served.Add(1)
				was(s)
			}
			long, short := g.attacker(), g.attacker()
			batch := rawhttp2.Headers(1, true, long.Block(request("/refuse/first")...)).Append(nil)
			for i := range uint32(calls) {
				batch = rawhttp2.Headers(2*i+3, true, long.Block(request("/refuse/many")...)).Append(batch)
			}
			written := make(chan error, 1)
			go func() { written <- long.WriteBytes(batch) }()
			check.Received(t, begun, "the start")
			check.Must(t, short.Write(rawhttp2.Headers(1, true, short.Block(request("/refuse/one")...))))
			close(brought)
			for c, last := range map[*rawhttp2.Conn]uint32{short: 1, long: 2*calls + 1} {
				r, err := c.WaitResponse(last)
				check.Must(t, err)
				if r.Status() != "9" {
					t.Error(r)
				}
			}
			check.Must(t, check.Received(t, written, "the write"))
		})
	}
}
