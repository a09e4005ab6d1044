package relay_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// TestContinuationAttacks sends header blocks without an end (CVE-2024-24549 and similar attacks).
func TestContinuationAttacks(t *testing.T) {
	cases := map[string][]byte{
		"full":  bytes.Repeat([]byte{0}, 16<<10),
		"short": {0},
		"empty": nil,
	}
	for name, part := range cases {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, relay.Config{})
			g.during(limits{buffers: 512 << 10, goroutines: 8}, func() {
				c := g.attacker()
				ended := make(chan error, 1)
				go func() { ended <- wantCalm(c) }()
				block := c.Block(request(methodEmpty)...)
				check.Must(t, c.Write(rawhttp2.Frame{Type: rawhttp2.TypeHeaders, Stream: 1, Payload: block}))
				g.flood(c, rawhttp2.Continuation(1, false, part).Append(nil), ended)
			})
		})
	}
}

// TestLongHeaders sends header lists that exceed the relay's limit, encoded or decoded.
func TestLongHeaders(t *testing.T) {
	g := newRig(t, relay.Config{})
	t.Run("list", func(t *testing.T) {
		c := g.attacker()
		writeBlock(t, c, 1, c.Block(request(methodEmpty, "x", strings.Repeat("\x7e", 65<<10))...))
		want431(t, c, 1)
		wantEmptyCall(t, c, 3)
		check.Must(t, c.Close())
	})
	t.Run("HPACK bomb", func(t *testing.T) {
		c := g.attacker()
		g.during(limits{buffers: 1 << 20, goroutines: 8, streams: 2}, func() {
			// An entry of the dynamic table and references to it: each byte decodes to 4 KiB.
			bomb := append(c.Block(request(methodEmpty, "x", strings.Repeat("y", 4000))...),
				bytes.Repeat([]byte{0x80 | 62}, 16<<10-5000)...)
			writeBlock(t, c, 1, bomb)
			g.call()
			want431(t, c, 1)
			wantEmptyCall(t, c, 3)
			check.Must(t, c.Close())
		})
	})
	t.Run("block", func(t *testing.T) {
		c := g.attacker()
		ended := make(chan error, 1)
		go func() { ended <- wantCalm(c) }()
		g.during(limits{buffers: 1 << 20, goroutines: 8}, func() {
			block := c.Block(request(methodEmpty, "x", strings.Repeat("\x7e", 256<<10))...)
			frames := blockFrames(1, block)
			check.Must(t, c.Write(frames[0]))
			g.call()
			_ = c.Write(frames[1:]...) // the connection may be closed before all frames are written
			check.Must(t, check.Received(t, ended, "the end of the connection"))
		})
	})
}

// TestHeadersHeld opens many streams with long headers at a backend that does not respond. The memory for their headers
// is bounded for each connection.
func TestHeadersHeld(t *testing.T) {
	const streams = 200
	long := strings.Repeat("\x7e", 60<<10)
	cases := map[string]struct {
		first, each func(*rawhttp2.Conn) []byte
		buffers     int
		refused     bool
	}{
		"long": {
			first:   func(c *rawhttp2.Conn) []byte { return c.Block(request("/raw/never")...) },
			each:    func(c *rawhttp2.Conn) []byte { return c.Block(request("/raw/never", "x", long)...) },
			buffers: 4<<20 + 1<<20,
			refused: true,
		},
		"long by reference": { // 60 KiB in 20 bytes, of which the relay holds one copy
			first: func(c *rawhttp2.Conn) []byte {
				return c.Block(request("/raw/never", "x", strings.Repeat("y", 3000))...)
			},
			each: func(c *rawhttp2.Conn) []byte {
				return append(c.Block(request("/raw/never")...), bytes.Repeat([]byte{0x80 | 62}, 20)...)
			},
			buffers: 1 << 20,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, relay.Config{})
			g.sink()
			g.during(limits{buffers: tc.buffers, goroutines: 8, streams: streams + 1}, func() {
				c := g.attacker()
				writeBlock(t, c, 1, tc.first(c))
				refused := make(chan error, 1)
				if tc.refused {
					go func() { refused <- wantRefused(c, 2*streams+1) }()
				} else {
					close(refused)
				}
				for id := uint32(3); id <= 2*streams+1; id += 2 {
					writeBlock(t, c, id, tc.each(c))
				}
				check.Must(t, check.Received(t, refused, "the refusal"))
				check.Must(t, c.Sync())
				g.call()
				check.Must(t, c.Close())
			})
		})
	}
}

func wantRefused(c *rawhttp2.Conn, stream uint32) error {
	code, err := c.WaitReset(stream)
	if err == nil && code != rawhttp2.RefusedStream {
		err = fmt.Errorf("reset with error %d, want REFUSED_STREAM", code)
	}
	return err
}

// blockFrames cuts a header block into frames.
func blockFrames(stream uint32, block []byte) []rawhttp2.Frame {
	const most = 16 << 10
	f := rawhttp2.Frame{Type: rawhttp2.TypeHeaders, Flags: rawhttp2.EndStream, Stream: stream,
		Payload: block[:min(len(block), most)]}
	frames := []rawhttp2.Frame{f}
	for block = block[len(f.Payload):]; len(block) > 0; block = block[min(len(block), most):] {
		frames = append(frames, rawhttp2.Continuation(stream, false, block[:min(len(block), most)]))
	}
	frames[len(frames)-1].Flags |= rawhttp2.EndHeaders
	return frames
}

func writeBlock(t *testing.T, c *rawhttp2.Conn, stream uint32, block []byte) {
	t.Helper()
	check.Must(t, c.Write(blockFrames(stream, block)...))
}

// want431 checks that the relay refuses the stream and keeps the connection.
func want431(t *testing.T, c *rawhttp2.Conn, stream uint32) {
	t.Helper()
	r, err := c.WaitResponse(stream)
	check.Must(t, err)
	if r.Header[":status"] != "431" {
		t.Errorf("stream %d: %v, want 431", stream, r)
	}
}

func wantEmptyCall(t *testing.T, c *rawhttp2.Conn, stream uint32) {
	t.Helper()
	check.Must(t, c.Write(rawhttp2.Headers(stream, false, c.Block(request(methodEmpty)...)),
		rawhttp2.Data(stream, true, rawhttp2.Message(nil))))
	r, err := c.WaitResponse(stream)
	check.Must(t, err)
	if r.Status() != "0" {
		t.Errorf("stream %d: %v", stream, r)
	}
}
