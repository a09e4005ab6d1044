package relay_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// said returns the frames that a backend sends in response to a call on stream 1.
type said func(*rawhttp2.Conn) []rawhttp2.Frame

func frames(f ...rawhttp2.Frame) said { return func(*rawhttp2.Conn) []rawhttp2.Frame { return f } }

func headers(end bool, fields ...string) said {
	return func(c *rawhttp2.Conn) []rawhttp2.Frame {
		return []rawhttp2.Frame{rawhttp2.Headers(1, end, c.Block(fields...))}
	}
}

// response returns the beginning of a valid response, followed by more.
func response(more ...said) said {
	return func(c *rawhttp2.Conn) []rawhttp2.Frame {
		all := headers(false, ":status", "200", "content-type", "application/grpc")(c)
		for _, s := range more {
			all = append(all, s(c)...)
		}
		return all
	}
}

// brokenStreams returns protocol errors of a backend on one stream.
func brokenStreams() map[string]said {
	return map[string]said{
		"DATA before HEADERS":                         frames(rawhttp2.Data(1, false, []byte("x"))),
		"no status":                                   headers(false, "content-type", "application/grpc"),
		"status of letters":                           headers(false, ":status", "abc"),
		"two statuses":                                headers(false, ":status", "200", ":status", "200"),
		"request's pseudo-header":                     headers(false, ":status", "200", ":path", "/"),
		"upper case":                                  headers(false, ":status", "200", "X", "y"),
		"connection header":                           headers(false, ":status", "200", "connection", "close"),
		"transfer-encoding":                           headers(false, ":status", "200", "transfer-encoding", "chunked"),
		"control character":                           headers(false, ":status", "200", "x", "a\rb"),
		"switching protocols":                         headers(false, ":status", "101"),
		"informational at the end":                    headers(true, ":status", "100"),
		"content-length of a body that does not come": headers(true, ":status", "200", "content-length", "5"),
		"content-length twice": headers(false, ":status", "200", "content-length", "5",
			"content-length", "5"),
		"content-length passed": func(c *rawhttp2.Conn) []rawhttp2.Frame {
			return append(headers(false, ":status", "200", "content-length", "1")(c),
				rawhttp2.Data(1, false, []byte("xx")))
		},
		"header list too long": func(c *rawhttp2.Conn) []rawhttp2.Frame {
			f := blockFrames(1, c.Block(":status", "200", "x", strings.Repeat("\x7e", 70<<10)))
			f[0].Flags &^= rawhttp2.EndStream
			return f
		},
		"trailers that do not end":  response(headers(false, "grpc-status", "0")),
		"status in trailers":        response(headers(true, ":status", "200", "grpc-status", "0")),
		"stream's window of 0":      response(frames(rawhttp2.WindowUpdate(1, 0))),
		"stream's window overflows": response(frames(rawhttp2.WindowUpdate(1, 1<<31-1))),
		"stream's window exceeded": response(frames(slices.Repeat([]rawhttp2.Frame{rawhttp2.Data(1, false,
			make([]byte, 16<<10))}, 10)...)),
	}
}

// brokenConnections returns protocol errors of a backend on its connection.
func brokenConnections() map[string]said {
	part := rawhttp2.Frame{Type: rawhttp2.TypeHeaders, Stream: 1}
	return map[string]said{
		"frame too long":               frames(rawhttp2.Data(1, false, make([]byte, 16<<10+1))),
		"HEADERS on an idle stream":    frames(rawhttp2.Headers(99, false, nil)),
		"DATA on an idle stream":       frames(rawhttp2.Data(99, false, nil)),
		"RST_STREAM of an idle stream": frames(rawhttp2.Reset(99, 0)),
		"PUSH_PROMISE": frames(rawhttp2.Frame{Type: rawhttp2.TypePushPromise, Flags: rawhttp2.EndHeaders,
			Stream: 1, Payload: []byte{0, 0, 0, 2}}),
		"bad HPACK":                  frames(rawhttp2.Headers(1, false, bytes.Repeat([]byte{0xff}, 10))),
		"SETTINGS of a wrong length": frames(rawhttp2.Frame{Type: rawhttp2.TypeSettings, Payload: make([]byte, 5)}),
		"SETTINGS that enable push":  frames(rawhttp2.Settings(rawhttp2.Setting{ID: rawhttp2.EnablePush, Value: 1})),
		"SETTINGS of too large a window": frames(rawhttp2.Settings(rawhttp2.Setting{ID: rawhttp2.InitialWindowSize,
			Value: 1 << 31})),
		"SETTINGS that overflow a stream's window": frames(rawhttp2.WindowUpdate(1, 1<<31-1-65535),
			rawhttp2.Settings(rawhttp2.Setting{ID: rawhttp2.InitialWindowSize, Value: 65536})),
		"connection's window of 0":      frames(rawhttp2.WindowUpdate(0, 0)),
		"connection's window overflows": frames(rawhttp2.WindowUpdate(0, 1<<31-1)),
		"GOAWAY too short":              frames(rawhttp2.Frame{Type: rawhttp2.TypeGoAway, Payload: []byte{0}}),
		"CONTINUATION of nothing":       frames(rawhttp2.Continuation(1, true, nil)),
		"header block interrupted":      frames(part, rawhttp2.Ping(1)),
		"header block without end": frames(append([]rawhttp2.Frame{part},
			slices.Repeat([]rawhttp2.Frame{rawhttp2.Continuation(1, false, nil)}, 100)...)...),
		"header block of 256 KiB": frames(append([]rawhttp2.Frame{part},
			slices.Repeat([]rawhttp2.Frame{rawhttp2.Continuation(1, false, make([]byte, 16<<10))}, 15)...)...),
	}
}

// TestBrokenBackend: if a backend violates the protocol, on a stream or on the connection, the call ends with a status
// and the client's connection stays open.
func TestBrokenBackend(t *testing.T) {
	t.Parallel()
	play := func(name string, s said, connection bool) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, relay.Config{})
			done := make(chan error, 1)
			go func() { done <- g.answer(s, connection) }()
			c := g.attacker()
			check.Must(t, c.Write(rawhttp2.Headers(1, true, c.Block(request("/raw/call")...))))
			check.Must(t, check.Received(t, done, "the end of what the backend plays"))
			// Bytes that came before the error are delivered first.
			check.Must(t, c.Write(rawhttp2.WindowUpdate(0, 1<<20), rawhttp2.WindowUpdate(1, 1<<20)))
			r, err := c.WaitResponse(1)
			check.Must(t, err)
			if s := r.Status(); s != "13" && s != "14" {
				t.Errorf("the call got %v", r)
			}
			wantEmptyCall(t, c, 3)
		})
	}
	for name, s := range brokenStreams() {
		play(name, s, false)
	}
	for name, s := range brokenConnections() {
		play(name, s, true)
	}
}

// answer plays a backend: it waits for a call, sends its frames, and waits until the relay ends the stream or the
// connection.
func (g *rig) answer(s said, connection bool) error {
	nc, err := g.raw.Accept()
	if err != nil {
		return err
	}
	defer func() { _ = nc.Close() }()
	b := rawhttp2.New(nc)
	if err := b.Welcome(); err != nil {
		return err
	}
	if _, err := b.Wait(func(f rawhttp2.Frame) bool { return f.Type == rawhttp2.TypeHeaders }); err != nil {
		return err
	}
	if err := b.Write(s(b)...); err != nil {
		return err
	}
	if connection {
		_, err := b.WaitGoAway()
		return err
	}
	_, err = b.WaitReset(1)
	return err
}

// TestBackendGone: backends that disconnect, or never complete a frame.
func TestBackendGone(t *testing.T) {
	t.Parallel()
	preface := slices.Clip(rawhttp2.Settings().Append(nil)) // every case appends to it
	cases := map[string]func(*rawhttp2.Conn) error{
		"closes at once":   func(c *rawhttp2.Conn) error { return c.Close() },
		"says nothing":     func(c *rawhttp2.Conn) error { return c.Drain() },
		"half of SETTINGS": func(c *rawhttp2.Conn) error { return sayAndDrain(c, preface[:5]) },
		"HTTP/1.1": func(c *rawhttp2.Conn) error {
			return sayAndDrain(c,
				[]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		},
		"half of HEADERS": func(c *rawhttp2.Conn) error {
			b := rawhttp2.Headers(1, false, c.Block(":status", "200")).Append(preface)
			return sayAndDrain(c, b[:len(b)-1])
		},
		"half of a block": func(c *rawhttp2.Conn) error {
			f := rawhttp2.Headers(1, false, c.Block(":status", "200"))
			f.Flags = 0
			return sayAndDrain(c, f.Append(preface))
		},
	}
	for name, play := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newRig(t, relay.Config{Timeouts: relay.Timeouts{Setup: time.Second}})
			done := make(chan error, 1)
			go func() {
				nc, err := g.raw.Accept()
				if err == nil {
					err = play(rawhttp2.New(nc))
					_ = nc.Close()
				}
				done <- err
			}()
			c := g.attacker()
			check.Must(t, c.Write(rawhttp2.Headers(1, true, c.Block(request("/raw/call")...))))
			r, err := c.WaitResponse(1)
			check.Must(t, err)
			if s := r.Status(); s != "14" && s != "13" {
				t.Errorf("the call got %v", r)
			}
			check.Must(t, check.Received(t, done, "the backend to have played its part"))
			wantEmptyCall(t, c, 3)
		})
	}
}

func sayAndDrain(c *rawhttp2.Conn, b []byte) error {
	if err := c.WriteBytes(b); err != nil {
		return err
	}
	return c.Drain()
}

// TestBackendFloods: backends that flood the relay with unrequested frames, for a client that reads nothing. The relay
// closes the connection to the backend, and not that to the client.
func TestBackendFloods(t *testing.T) {
	cases := map[string]said{
		"PING":           frames(rawhttp2.Ping(1)),
		"SETTINGS":       frames(rawhttp2.Settings()),
		"empty DATA":     frames(rawhttp2.Data(1, false, nil)),
		"unknown frames": frames(rawhttp2.Frame{Type: 0xbe, Stream: 1}),
		"crumbs":         frames(rawhttp2.WindowUpdate(1, 1)),
		"stray DATA":     frames(rawhttp2.Data(1, false, nil)),
	}
	for name, s := range cases {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, relay.Config{})
			g.during(limits{buffers: perConn, goroutines: 12, streams: 1}, func() {
				client := g.attacker()
				check.Must(t, client.Write(rawhttp2.Headers(1, true, client.Block(request("/raw/call")...))))
				b := g.backend()
				check.Must(t, b.Write(response()(b)...))
				ended := make(chan error, 1)
				go func() { ended <- wantCalm(b) }()
				var batch []byte
				for _, f := range slices.Repeat(s(b), 2000) {
					batch = f.Append(batch)
				}
				g.flood(b, batch, ended)
				r, err := client.WaitResponse(1)
				check.Must(t, err)
				if s := r.Status(); s != "13" && s != "14" {
					t.Errorf("the call got %v", r)
				}
				wantEmptyCall(t, client, 3)
				check.Must(t, client.Close())
			})
		})
	}
}

// TestInformationalFlood: a backend sends endless 103 responses for a client that does not read.
func TestInformationalFlood(t *testing.T) {
	g := newRig(t, relay.Config{})
	g.during(limits{buffers: perConn, goroutines: 12, streams: 1}, func() {
		client := g.attacker()
		check.Must(t, client.Write(rawhttp2.Headers(1, true, client.Block(request("/raw/call")...))))
		b := g.backend()
		ended := make(chan error, 1)
		go func() {
			_, err := b.WaitReset(1)
			ended <- err
		}()
		var batch []byte
		for range 10 {
			batch = rawhttp2.Headers(1, false, b.Block(":status", "103", "x", strings.Repeat("\x7e", 8000))).Append(
				batch)
		}
		g.flood(b, batch, ended)
		r, err := client.WaitResponse(1)
		check.Must(t, err)
		if r.Status() != "8" {
			t.Errorf("the call got %v", r)
		}
		wantEmptyCall(t, client, 3)
		check.Must(t, client.Close())
		check.Must(t, b.Close())
	})
}

// TestGoAwayOfAWrongPort: a backend that refuses cleartext has not started the call, whatever its GOAWAY says.
func TestGoAwayOfAWrongPort(t *testing.T) {
	t.Parallel()
	w := newRelayed(t, relay.Config{})
	spare := w.h.target()
	raw := w.rawBackend(t)
	w.h.onUnsent(func(s *relay.Stream, err error) {
		if !errors.Is(err, relay.ErrGoAway) {
			t.Errorf("Unsent: %v", err)
		}
		s.Forward(spare)
	})
	ended := make(chan error, 1)
	go func() {
		_, err := unary(w.ctx, w.cc, "Echo", pattern(0, 100))
		ended <- err
	}()
	const inadequateSecurity = 0xc
	p := raw.accept(t)
	check.Must(t, p.Write(rawhttp2.GoAway(p.head(t), inadequateSecurity)))
	check.Must(t, check.Received(t, ended, "the end of the call"))
}
