package relay_test

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// shardTick is the resolution of the relay's clock. A timer may fire early by that much.
const shardTick = 10 * time.Millisecond

// TestSlowPeers: clients begin a handshake, a frame or a message and never complete it.
func TestSlowPeers(t *testing.T) {
	const limit = time.Second
	preface := slices.Clip(rawhttp2.Settings().Append([]byte(rawhttp2.Preface)))
	headers := func(c *rawhttp2.Conn) []byte {
		return rawhttp2.Headers(1, false, c.Block(request("/read/slow")...)).Append(nil)
	}
	cases := map[string]struct {
		first   func(*rawhttp2.Conn) []byte // written at once
		trickle []byte                      // then written again and again, one byte at a time
	}{
		"nothing":          {first: func(*rawhttp2.Conn) []byte { return nil }},
		"half a preface":   {first: func(*rawhttp2.Conn) []byte { return preface[:10] }},
		"trickled preface": {trickle: preface[:20]},
		"no SETTINGS":      {first: func(*rawhttp2.Conn) []byte { return preface[:24] }},
		"HTTP/1.1 headers": {first: func(*rawhttp2.Conn) []byte { return []byte("GET / HTTP/1.1\r\nHost: x\r\n") }},
		"half a frame":     {first: func(c *rawhttp2.Conn) []byte { return append(preface, headers(c)[:20]...) }},
		"half a PING": {first: func(*rawhttp2.Conn) []byte {
			return append(preface,
				rawhttp2.Ping(1).Append(nil)[:12]...)
		}},
		"no CONTINUATION": {first: func(c *rawhttp2.Conn) []byte { return append(preface, openBlock(c)...) }},
		"trickled headers": {first: func(c *rawhttp2.Conn) []byte { return append(preface, bigFrameHeader()...) },
			trickle: make([]byte, 500)},
		"half a message": {first: func(c *rawhttp2.Conn) []byte {
			return append(append(preface, headers(c)...),
				halfMessage()...)
		}},
		"trickled message": {first: func(c *rawhttp2.Conn) []byte {
			return append(append(preface, headers(c)...),
				halfMessage()...)
		}, trickle: make([]byte, 500)},
	}
	g := newRig(t, relay.Config{Timeouts: relay.Timeouts{Setup: limit, Ping: limit}})
	g.during(limits{buffers: 64 << 10, goroutines: 4 * len(cases), streams: 2}, func() {
		var all sync.WaitGroup
		for name, tc := range cases {
			start := time.Now()
			c := g.dial()
			if tc.first != nil {
				check.Must(t, c.WriteBytes(tc.first(c)))
			}
			all.Go(func() {
				err := trickleUntilClosed(c, tc.trickle) // at most the timeout of c
				if d := time.Since(start); err != nil || d < limit-shardTick {
					t.Errorf("%s: ended after %v: %v", name, d, err)
				}
				_ = c.Close()
			})
		}
		g.call()
		all.Wait()
	})
}

// trickleUntilClosed writes one byte every few milliseconds until the relay has closed the connection.
func trickleUntilClosed(c *rawhttp2.Conn, trickle []byte) error {
	ended := make(chan error, 1)
	go func() { ended <- c.Drain() }()
	for {
		select {
		case err := <-ended:
			return err
		case <-time.After(10 * time.Millisecond):
			if len(trickle) > 0 {
				_ = c.WriteBytes(trickle[:1]) // fails on a closed connection
				trickle = trickle[1:]
			}
		}
	}
}

// bigFrameHeader announces a HEADERS frame of 1000 bytes.
func bigFrameHeader() []byte {
	return rawhttp2.Headers(1, true, make([]byte, 1000)).Append(nil)[:9]
}

// halfMessage returns the beginning of a message of 1000 bytes, in an incomplete DATA frame.
func halfMessage() []byte {
	return rawhttp2.Data(1, false, rawhttp2.Message(make([]byte, 1000))).Append(nil)[:100]
}

func openBlock(c *rawhttp2.Conn) []byte {
	return rawhttp2.Frame{Type: rawhttp2.TypeHeaders, Stream: 1, Payload: c.Block(request(methodEmpty)...)}.Append(nil)
}

// TestSlowHandshake: a TLS handshake that is never completed is cut off, and its place is released.
func TestSlowHandshake(t *testing.T) {
	t.Parallel()
	const limit = 200 * time.Millisecond
	server, _ := tlsConfigs(t)
	h := &attackHandler{}
	r := relay.New(relay.Config{TLS: server, Timeouts: relay.Timeouts{Setup: limit},
		Limits: accept.Limits{MaxConns: 1}}, h,
		http.NotFoundHandler())
	check.Cleanup(t, r.Close)
	ln := check.Listen(t)
	go func() { _ = r.Serve(ln) }()
	clientHello := []byte{22, 3, 1, 2, 0, 1, 0} // the beginning of a client hello
	for _, said := range [][]byte{nil, clientHello} {
		c, err := rawhttp2.Dial(ln.Addr().String())
		check.Must(t, err)
		check.Must(t, c.WriteBytes(said))
		check.Must(t, c.Drain()) // the second connection is served, so the first has released its place
		check.Must(t, c.Close())
	}
}

// TestIdleConnection: an idle connection is closed with a GOAWAY after its timeout.
func TestIdleConnection(t *testing.T) {
	t.Parallel()
	const idle = time.Second
	g := newRig(t, relay.Config{Timeouts: relay.Timeouts{Idle: idle}})
	c := g.attacker()
	start := time.Now()
	wantEmptyCall(t, c, 1)
	check.Must(t, wantGoAway(c, rawhttp2.NoError))
	if d := time.Since(start); d < idle-shardTick {
		t.Errorf("closed after %v, want no sooner than %v", d, idle)
	}
}

// TestBusyConnectionIsNotIdle: a connection with a stream outlives a newer one that is idle.
func TestBusyConnectionIsNotIdle(t *testing.T) {
	t.Parallel()
	g := newRig(t, relay.Config{Timeouts: relay.Timeouts{Idle: time.Second}})
	g.sink()
	c := g.attacker()
	check.Must(t, c.Write(rawhttp2.Headers(1, true, c.Block(request("/raw/never")...))))
	check.Must(t, c.Sync())
	check.Must(t, wantGoAway(g.attacker(), rawhttp2.NoError))
	check.Must(t, c.Sync())
	check.Must(t, c.Write(rawhttp2.Reset(1, rawhttp2.Cancel)))
	check.Must(t, wantGoAway(c, rawhttp2.NoError))
}

// TestHalfOpen: a PING finds a client that has disappeared without closing its connection.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	g := newRig(t, relay.Config{Timeouts: relay.Timeouts{KeepAlive: 100 * time.Millisecond, Ping: 2 * time.Second}})
	g.sink()
	c := g.attacker()
	check.Must(t, c.Write(rawhttp2.Headers(1, true, c.Block(request("/raw/never")...))))
	pings := 0
	for {
		f, err := c.Read()
		if rawhttp2.Closed(err) {
			break
		}
		check.Must(t, err)
		if f.Type == rawhttp2.TypePing {
			if pings++; pings == 1 { // the second PING gets no answer
				check.Must(t, c.Write(rawhttp2.Pong(f)))
			}
		}
	}
	if pings != 2 {
		t.Errorf("%d PINGs, want 2", pings)
	}
	check.Succeeds(t, "the stream to end with its client", func() error {
		if n := g.handler.count(relay.ClientGone); n != 1 {
			return fmt.Errorf("%d streams ended for want of a client", n)
		}
		return nil
	})

}
