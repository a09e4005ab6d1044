package relay_test

import (
	"testing"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// TestResetAttacks opens streams and ends them at once, by the client's own RST_STREAM (rapid reset, CVE-2023-44487) or
// by making the relay reset them (MadeYouReset, CVE-2025-8671). In both cases the connection ends within two windows of
// 500 streams.
func TestResetAttacks(t *testing.T) {
	const bad = "bad\x00value"
	open := func(c *rawhttp2.Conn, id uint32, end bool, more ...string) rawhttp2.Frame {
		return rawhttp2.Headers(id, end, c.Block(request("/raw/never", more...)...))
	}
	cases := map[string]func(c *rawhttp2.Conn, id uint32) []rawhttp2.Frame{
		"cancel": func(c *rawhttp2.Conn, id uint32) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c, id, true), rawhttp2.Reset(id, rawhttp2.Cancel)}
		},
		"WINDOW_UPDATE of 0": func(c *rawhttp2.Conn, id uint32) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c, id, true), rawhttp2.WindowUpdate(id, 0)}
		},
		"window overflow": func(c *rawhttp2.Conn, id uint32) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c, id, true), rawhttp2.WindowUpdate(id, 1<<31-1)}
		},
		"DATA after END_STREAM": func(c *rawhttp2.Conn, id uint32) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c, id, true), rawhttp2.Data(id, false, []byte("x"))}
		},
		"HEADERS after END_STREAM": func(c *rawhttp2.Conn, id uint32) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c, id, true), open(c, id, true)}
		},
		"PRIORITY too short": func(c *rawhttp2.Conn, id uint32) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c, id, true), {Type: rawhttp2.TypePriority, Stream: id, Payload: []byte{0}}}
		},
		"dependency on itself": func(c *rawhttp2.Conn, id uint32) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c, id, true), rawhttp2.Priority(id, id)}
		},
		"content-length passed": func(c *rawhttp2.Conn, id uint32) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c, id, false, "content-length", "1"), rawhttp2.Data(id, false, []byte("xx"))}
		},
		"malformed headers": func(c *rawhttp2.Conn, id uint32) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c, id, true, "x", bad)}
		},
		"malformed trailers": func(c *rawhttp2.Conn, id uint32) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c, id, false), rawhttp2.Headers(id, true, c.Block("x", bad))}
		},
		"trailers without END_STREAM": func(c *rawhttp2.Conn, id uint32) []rawhttp2.Frame {
			return []rawhttp2.Frame{open(c, id, false), rawhttp2.Headers(id, false, c.Block("x", "y"))}
		},
	}
	for name, frames := range cases {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, relay.Config{})
			g.sink()
			g.during(limits{buffers: 1 << 20, goroutines: 8, streams: 100}, func() {
				c := g.attacker()
				ended := make(chan error, 1)
				go func() { ended <- wantCalm(c) }()
				var id uint32 = 1
				for ; id < 2*2000; id += 2 {
					if id == 2*200+1 {
						g.call()
					}
					if c.Write(frames(c, id)...) != nil {
						break
					}
				}
				check.Must(t, check.Received(t, ended, "the end of the connection"))
			})
			// The window of streams that precedes the attack may be half used.
			if n := g.handler.count(relay.ClientGone) + g.handler.count(relay.ClientProtocol); n > 1000 {
				t.Errorf("%d streams were reset, at most 1000 expected", n)
			}
		})
	}
}

// wantCalm reads until the connection has ended, which must be with ENHANCE_YOUR_CALM. The relay waits one second for
// the client to read its GOAWAY, behind all earlier output. A slow reader, as on a busy machine, may see only the end
// of the connection.
func wantCalm(c *rawhttp2.Conn) error {
	err := wantGoAway(c, rawhttp2.EnhanceYourCalm)
	if rawhttp2.Closed(err) {
		return nil
	}
	return err
}
