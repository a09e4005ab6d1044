package relay

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay/hpack"
	"github.com/capgate/capgate/internal/testkit/check"
)

// fuzzHandler forwards, reads the first message or replies, as the path says.
type fuzzHandler struct {
	up      *Upstream
	asked   int
	done    int
	message *Message
	failure Failure
	serve   func(*Stream) // serves /serve
}

func (h *fuzzHandler) Headers(s *Stream) {
	h.asked++
	switch s.Path() {
	case "/read":
		s.ReadMessage()
	case "/reply":
		s.Reply(make([]byte, 100_000))
	case "/serve":
		h.forward(s)
	default:
		s.Forward(h.up)
	}
}

func (h *fuzzHandler) forward(s *Stream) {
	if h.serve != nil && s.Path() == "/serve" {
		h.serve(s)
	} else {
		s.Forward(h.up)
	}
}

func (h *fuzzHandler) Message(s *Stream, m Message) {
	m.Data = bytes.Clone(m.Data)
	h.message = &m
	s.Forward(h.up)
}

func (h *fuzzHandler) Unsent(s *Stream, err error) {
	s.Refuse(Status{Code: codeUnavailable, Message: err.Error()})
}

func (h *fuzzHandler) Again(s *Stream, _ Answer) bool { return s.Path() == "/again" }

func (h *fuzzHandler) Explain(_ *Stream, f Failure) Status {
	h.failure = f
	return Status{Code: codeInternal, Message: f.String()}
}

func (h *fuzzHandler) Done(*Stream, *Result) { h.done++ }

// fuzzRelay returns a connection of a client and one to a backend on one shard, without goroutines other than those of
// the http.Handler.
func fuzzRelay(t testing.TB, cfg Config) (h *fuzzHandler, client, back *conn) {
	h = &fuzzHandler{}
	r := bareRelay(t, cfg, h)
	nobody := UpstreamConfig{MaxConns: 1, Dial: func(context.Context) (net.Conn, error) { return nil, ErrClosed }}
	h.up = r.NewUpstream(nobody)
	r.webHandler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(w, req.Body) // until the client leaves
	})
	sh := r.shards[0]
	sh.enter()
	defer sh.leave()
	p := sh.poolOf(h.up)
	p.dialing++
	client = newConn(sh, nil, &fakeLink{room: plenty}, nil)
	back = newConn(sh, p, &fakeLink{room: plenty}, nil)
	return h, client, back
}

// bareRelay returns a relay with one shard, without sockets.
func bareRelay(t testing.TB, cfg Config, h Handler) *Relay {
	cfg.Shards = 1
	r := &Relay{cfg: cfg.withDefaults(), handler: h, epoch: time.Now().Add(-time.Second)}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	sh := newShard(r, 0)
	r.shards = append(r.shards, sh)
	check.Cleanup(t, func() {
		r.cancel()
		sh.closeLocals()
		sh.each(func(c *conn) { c.lost(ErrClosed) })
		sh.workers.close()
		check.Ended(t, &r.wg, "the end of the handlers")
		sh.timer.Stop()
	})
	return r
}

// feedAll feeds bytes to a connection as a socket would.
func feedAll(c *conn, p []byte) {
	c.sh.enter()
	defer c.sh.leave()
	for len(p) > 0 && !c.closed {
		n := copy(c.sh.buf[frameHeaderLen:], p)
		p = p[n:]
		c.feed(c.sh.buf, frameHeaderLen, frameHeaderLen+n)
		c.sh.settle()
	}
}

// frames builds a conversation for the corpus.
type frames []byte

func (f frames) add(typ, flags byte, id uint32, p []byte) frames {
	return append(appendFrameHeader(f, len(p), typ, flags, id), p...)
}

func (f frames) headers(id uint32, end bool, pairs ...string) frames {
	enc := hpack.NewEncoder()
	b := enc.Begin(nil)
	for i := 0; i < len(pairs); i += 2 {
		b = enc.EncodeString(b, pairs[i], pairs[i+1])
	}
	return f.add(frameHeaders, flagEndHeaders|endFlag(end), id, b)
}

func fuzzRequest(path string) []string {
	return []string{":method", "POST", ":scheme", "http", ":path", path, ":authority", "a", "content-type",
		"application/grpc"}
}

// segments interleaves bytes in the form that FuzzConn reads: the connection and the length precede each segment.
func segments(client, back frames, size int) []byte {
	var out []byte
	for len(client)+len(back) > 0 {
		for who, p := range []*frames{&client, &back} {
			n := min(len(*p), size)
			out = append(append(out, byte(n<<1|who)), (*p)[:n]...)
			*p = (*p)[n:]
		}
	}
	return out
}

// FuzzConn feeds any bytes to a client's and a backend's connection, in turn. The relay must not panic, must write
// whole frames, must report every stream, and must hold nothing once the connections have ended.
func FuzzConn(f *testing.F) {
	hello := frames(nil).add(frameSettings, 0, 0, nil)
	msg := append([]byte{0, 0, 0, 0, 5}, "hello"...)
	for _, path := range []string{"/read", "/reply", "/x"} {
		client := append(frames{}, hello...).headers(1, false, fuzzRequest(path)...).add(frameData, flagEndStream, 1,
			msg).
			add(frameSettings, 0, 0, appendSetting(nil, settingInitialWindow, 3)).headers(3, true,
			fuzzRequest(path)...).
			add(frameRSTStream, 0, 3, []byte{0, 0, 0, 8}).add(frameWindowUpdate, 0, 0, []byte{0, 0, 1, 0})
		back := append(frames{}, hello...).headers(1, false, ":status", "200", "content-type", "application/grpc").
			add(frameData, flagPadded, 1, append([]byte{2}, append(msg, 0, 0)...)).headers(1, true, "grpc-status", "0").
			add(frameGoAway, 0, 0, []byte{0, 0, 0, 1, 0, 0, 0, 0}).add(framePing, 0, 0, make([]byte, 8))
		f.Add(segments(client, back, 7))
		f.Add(segments(client, back, 127))
	}
	web := append(frames{}, hello...).headers(1, false, ":method", "POST", ":scheme", "http", ":path", "/a?b",
		":authority", "x", "expect", "100-continue").
		add(frameData, 0, 1, msg).headers(3, true, ":method", "HEAD", ":scheme", "http", ":path", "/%zz").headers(1,
		true,
		"x-sum", "1")
	f.Add(segments(web, nil, 9))
	f.Add(segments(web[:len(web)-3], nil, 127))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, client, back := fuzzRelay(t, Config{HTTP2: HTTP2{MaxFirstMessage: 1000},
			Forwarding: Forwarding{MaxReplay: 500}})
		feedAll(client, []byte(preface))
		for len(data) > 0 {
			c, n := client, min(int(data[0]>>1), len(data)-1)
			if data[0]&1 == 1 {
				c = back
			}
			feedAll(c, data[1:1+n])
			data = data[1+n:]
		}
		for _, c := range []*conn{client, back} {
			c.sh.enter() // a dial may fail meanwhile
			checkFrames(t, c)
			c.lost(io.EOF)
			c.sh.leave()
		}
		sh := client.sh
		sh.enter()
		defer sh.leave()
		if h.asked != h.done || sh.buffered != 0 || client.streams.count+back.streams.count != 0 ||
			client.heads+client.held != 0 {
			t.Errorf("%d streams asked for, %d done, %d and %d left, %d bytes held, %d and %d by the client",
				h.asked, h.done, client.streams.count, back.streams.count, sh.buffered, client.heads, client.held)
		}
	})
}

// checkFrames checks the frames that a connection wrote.
func checkFrames(t *testing.T, c *conn) {
	p := c.link.(*fakeLink).out
	if c.pool != nil {
		p = p[len(preface):]
	}
	ended := map[uint32]bool{}
	for len(p) > 0 {
		fh := parseFrameHeader(append(bytes.Clone(p), make([]byte, frameHeaderLen)...))
		if len(p) < frameHeaderLen+fh.length || fh.length > maxFrame {
			t.Fatalf("half a frame: %+v, %d bytes", fh, len(p))
		}
		p = p[frameHeaderLen+fh.length:]
		if fh.typ != frameData && fh.typ != frameHeaders {
			continue
		}
		if ended[fh.stream] {
			t.Fatalf("frame after the end: %+v", fh)
		}
		ended[fh.stream] = fh.flags&flagEndStream != 0
	}
}

// FuzzFirstMessage sends any body in any pieces, and compares the message that the Handler gets with that of the body.
func FuzzFirstMessage(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 3, 'a', 'b', 'c', 0}, uint64(0x1234))
	f.Add([]byte{1, 0, 0, 0, 0}, uint64(0))
	f.Add([]byte{0, 0, 0, 4, 0}, uint64(1))
	f.Add([]byte{2, 0, 0, 0, 1, 9}, uint64(3))
	f.Add([]byte(nil), uint64(0))
	const most = 1000
	f.Fuzz(func(t *testing.T, body []byte, cuts uint64) {
		h, client, _ := fuzzRelay(t, Config{HTTP2: HTTP2{MaxFirstMessage: most}})
		in := append([]byte(preface), frames(nil).add(frameSettings, 0, 0, nil).headers(1, false,
			fuzzRequest("/read")...)...)
		feedAll(client, in)
		for left := body; ; {
			n := min(len(left), int(cuts&63))
			if cuts = cuts>>6 | cuts<<58; n == 0 {
				n = min(len(left), 16<<10)
			}
			feedAll(client, frames(nil).add(frameData, endFlag(n == len(left)), 1, left[:n]))
			if left = left[n:]; len(left) == 0 {
				break
			}
		}
		want, failure := firstMessage(body, most)
		switch {
		case h.failure != failure:
			t.Errorf("failure %v, not %v", h.failure, failure)
		case (h.message == nil) != (want == nil):
			t.Errorf("message %v, not %v", h.message, want)
		case want != nil && (h.message.Missing != want.Missing || h.message.Compressed != want.Compressed ||
			!bytes.Equal(h.message.Data, want.Data)):
			t.Errorf("message %v, not %v", h.message, want)
		}
	})
}

// firstMessage returns the first message of a whole body.
func firstMessage(body []byte, most uint32) (*Message, Failure) {
	switch {
	case len(body) == 0:
		return &Message{Missing: true}, NoFailure
	case len(body) < 5, body[0] > 1:
		return nil, MessageMalformed
	}
	n := be32(body[1:])
	switch {
	case n > most:
		return nil, MessageTooLarge
	case uint32(len(body)-5) < n:
		return nil, MessageMalformed
	}
	return &Message{Data: body[5 : 5+n], Compressed: body[0] == 1}, NoFailure
}

func (h *fuzzHandler) Started(*Stream) {}

func (h *fuzzHandler) Exceeded(*Stream, Failure) bool { return true }
