package relay_test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// TestFloodAttacks sends frames that carry no request, until the relay closes the connection.
func TestFloodAttacks(t *testing.T) {
	const open, closed = 1, 3 // a stream that stays open and one that is over
	cases := map[string]rawhttp2.Frame{
		"PING":                           rawhttp2.Ping(1),
		"SETTINGS":                       rawhttp2.Settings(),
		"SETTINGS that move all windows": rawhttp2.Settings(windowSettings(100)...),
		"SETTINGS acknowledgement":       rawhttp2.SettingsAck(),
		"PRIORITY":                       rawhttp2.Priority(open, 0),
		"PRIORITY of an idle stream":     rawhttp2.Priority(1001, 0),
		"empty DATA":                     rawhttp2.Data(open, false, nil),
		"DATA of padding": {Type: rawhttp2.TypeData, Flags: rawhttp2.Padded, Stream: open,
			Payload: []byte{1, 0}},
		"DATA on a closed stream":       rawhttp2.Data(closed, false, nil),
		"unknown type":                  {Type: 0xbe, Stream: open, Payload: []byte("anything")},
		"WINDOW_UPDATE of a byte":       rawhttp2.WindowUpdate(0, 1),
		"WINDOW_UPDATE of a stream":     rawhttp2.WindowUpdate(open, 1),
		"WINDOW_UPDATE, large":          rawhttp2.WindowUpdate(open, 1000),
		"WINDOW_UPDATE, closed stream":  rawhttp2.WindowUpdate(closed, 1),
		"RST_STREAM of a closed stream": rawhttp2.Reset(closed, rawhttp2.Cancel),
	}
	for name, frame := range cases {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, relay.Config{})
			g.sink()
			g.during(limits{buffers: 1 << 20, goroutines: 8, streams: 1}, func() {
				c := g.attacker()
				check.Must(t, c.Write(
					rawhttp2.Headers(open, false, c.Block(request("/raw/never")...)),
					rawhttp2.Headers(closed, true, c.Block(request(methodEmpty)...)),
					rawhttp2.Data(closed, true, rawhttp2.Message(nil)),
				))
				_, err := c.WaitResponse(closed)
				check.Must(t, err)
				ended := make(chan error, 1)
				go func() { ended <- wantCalm(c) }()
				batch := slices.Repeat(frame.Append(nil), 500)
				g.flood(c, batch, ended)
			})
		})
	}
}

// flood writes until the connection has ended. Meanwhile, the well-behaved client makes a call.
func (g *rig) flood(c *rawhttp2.Conn, batch []byte, ended <-chan error) {
	g.t.Helper()
	for end, first := time.Now().Add(check.Patience), true; time.Now().Before(end); first = false {
		err := c.WriteBytes(batch) // fails on a closed connection; ended has the reason
		if first {
			g.call()
		}
		select {
		case err := <-ended:
			check.Must(g.t, err)
			return
		default:
			if err != nil {
				runtime.Gosched()
			}
		}
	}
	g.t.Errorf("the connection goes on")
}

// windowSettings returns n changes of INITIAL_WINDOW_SIZE.
func windowSettings(n int) []rawhttp2.Setting {
	s := make([]rawhttp2.Setting, n)
	for i := range s {
		s[i] = rawhttp2.Setting{ID: rawhttp2.InitialWindowSize, Value: uint32(65535 + i%2)}
	}
	return s
}

// TestKeepalivesAreNoFlood: the control frames that ordinary calls cause never count as a flood, however old the
// connection is.
func TestKeepalivesAreNoFlood(t *testing.T) {
	g := newRig(t, relay.Config{})
	c := g.attacker()
	for i := range uint32(2000) {
		id := 2*i + 1
		check.Must(t, c.Write(
			rawhttp2.Headers(id, false, c.Block(request(methodEmpty)...)),
			rawhttp2.Data(id, true, rawhttp2.Message(nil)), rawhttp2.Ping(uint64(i)), rawhttp2.WindowUpdate(0, 1),
			rawhttp2.Priority(id, 0), rawhttp2.Ping(uint64(i)),
		))
		r, err := c.WaitResponse(id)
		check.Must(t, err)
		if r.Status() != "0" {
			t.Fatalf("call %d: %v", i, r)
		}
		check.Must(t, c.Write(rawhttp2.WindowUpdate(id, 100), rawhttp2.Reset(id, rawhttp2.NoError)))
	}
}
