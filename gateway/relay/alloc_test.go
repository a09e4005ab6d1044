package relay

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	xhpack "golang.org/x/net/http2/hpack"

	"github.com/capgate/capgate/internal/testkit/check"
)

// busyHandler does the work of a gateway for every call.
type busyHandler struct {
	up    *Upstream
	codes [17]int
}

func (h *busyHandler) Headers(s *Stream) {
	if _, ok := s.Header("x-capability-id"); ok {
		s.ReadMessage()
	}
}

func (h *busyHandler) Message(s *Stream, _ Message) {
	d, _ := s.Timeout()
	s.SetDeadline(min(d, time.Hour))
	s.SetHeader("x-request-id", "0123456789")
	s.DropHeader("x-secret")
	s.Forward(h.up)
}

func (h *busyHandler) Unsent(s *Stream, _ error)           { s.Refuse(Status{Code: codeUnavailable}) }
func (h *busyHandler) Again(*Stream, Answer) bool          { return false }
func (h *busyHandler) Explain(_ *Stream, f Failure) Status { return Status{Code: codeInternal} }
func (h *busyHandler) Done(_ *Stream, r *Result)           { h.codes[r.Code]++ }

// unaryLoop makes unary calls through a client's connection and a backend's.
type unaryLoop struct {
	client, back *conn
	h            *busyHandler
	requests     [][]byte // with different timeouts
	response     []byte
	id           uint32
}

// script encodes the header blocks that a peer sends in its steady state, when it has sent them before.
func script(t testing.TB, c *conn, blocks ...[]string) [][]byte {
	var buf bytes.Buffer
	enc := xhpack.NewEncoder(&buf)
	var out [][]byte
	for range 2 {
		out = out[:0]
		for _, pairs := range blocks {
			buf.Reset()
			for i := 0; i < len(pairs); i += 2 {
				// Secrets, and values that differ each time, are sent as literals.
				secret := pairs[i] == "grpc-timeout" || pairs[i] == "authorization"
				check.Must(t, enc.WriteField(xhpack.HeaderField{Name: pairs[i], Value: pairs[i+1], Sensitive: secret}))
			}
			out = append(out, bytes.Clone(buf.Bytes()))
			c.sh.enter()
			check.Must(t, c.dec.Decode(out[len(out)-1], c.sh.scratch, 1<<20))
			c.sh.scratch.Reset()
			c.sh.leave()
		}
	}
	return out
}

func newUnaryLoop(t testing.TB, size int, fields ...string) *unaryLoop {
	h := &busyHandler{}
	fh, client, back := fuzzRelay(t, Config{})
	h.up = fh.up
	client.sh.relay.handler = h
	l := &unaryLoop{client: client, back: back, h: h, id: 1}
	hello := frames(nil).add(frameSettings, 0, 0, appendSetting(nil, settingInitialWindow, 1<<30))
	feedAll(client, append([]byte(preface), hello...))
	feedAll(back, hello)
	window := frames(nil).add(frameWindowUpdate, 0, 0, []byte{0x7f, 0, 0, 0})
	feedAll(client, window)
	feedAll(back, window)
	body := append(appendUint32([]byte{0}, uint32(size)), make([]byte, size)...)
	var blocks [][]string
	for i := range 64 {
		fields := append(fields, "grpc-timeout", fmt.Sprint(999900+i, "u"))
		blocks = append(blocks, append(fuzzRequest("/selu.Capability/Invoke"), append([]string{"te", "trailers",
			"user-agent", "grpc-go/1.85.0", "x-capability-id", "weather", "x-secret", "s"}, fields...)...))
	}
	for _, b := range script(t, client, blocks...) {
		l.requests = append(l.requests, frames(nil).add(frameHeaders, flagEndHeaders, 0, b).add(frameData,
			flagEndStream, 0, body))
	}
	answer := script(t, back, []string{":status", "200", "content-type", "application/grpc"},
		[]string{"grpc-status", "0", "grpc-message", ""})
	l.response = frames(nil).add(frameHeaders, flagEndHeaders, 0, answer[0]).add(frameData, 0, 0, body).
		add(frameHeaders, flagEndHeaders|flagEndStream, 0, answer[1])
	return l
}

// call makes one call, and refills the windows.
func (l *unaryLoop) call() {
	c, b := l.client, l.back
	c.sendWin, b.sendWin = maxWindow, maxWindow
	feedOn(c, l.requests[int(l.id>>1)%len(l.requests)], l.id)
	feedOn(b, l.response, b.lastID)
	l.id += 2
	c.link.(*fakeLink).out, b.link.(*fakeLink).out = c.link.(*fakeLink).out[:0], b.link.(*fakeLink).out[:0]
}

// feedOn feeds frames to a connection in one read, after setting their stream id.
func feedOn(c *conn, p []byte, id uint32) {
	c.sh.enter()
	buf := c.sh.buf[:frameHeaderLen+len(p)]
	copy(buf[frameHeaderLen:], p)
	for at := frameHeaderLen; at < len(buf); at += frameHeaderLen + parseFrameHeader(buf[at:]).length {
		binary.BigEndian.PutUint32(buf[at+5:], id)
	}
	c.feed(c.sh.buf, frameHeaderLen, len(buf))
	c.sh.leave()
}

// TestCallAllocatesNothing: the core allocates nothing for a call.
func TestCallAllocatesNothing(t *testing.T) {
	cases := map[string]*unaryLoop{
		"long secret": newUnaryLoop(t, 100, "authorization", "Bearer "+strings.Repeat("token", 300)),
	}
	for _, size := range []int{0, 100, 1000, 10_000} {
		cases[fmt.Sprint(size, " bytes")] = newUnaryLoop(t, size)
	}
	for name, l := range cases {
		for range 3000 {
			l.call()
		}
		if n := testing.AllocsPerRun(1000, l.call); n != 0 {
			t.Errorf("%s: %v allocations per call", name, n)
		}
		if ok := l.h.codes[codeOK]; ok < 4000 {
			t.Errorf("%s: only %d calls succeeded: %v", name, ok, l.h.codes)
		}
	}
}

// BenchmarkCall measures the path of a unary call through the core, without sockets.
func BenchmarkCall(b *testing.B) {
	for _, size := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			l := newUnaryLoop(b, size)
			l.call()
			b.ReportAllocs()
			for b.Loop() {
				l.call()
			}
		})
	}
}

func (h *busyHandler) Started(*Stream) {}

func (h *busyHandler) Exceeded(*Stream, Failure) bool { return true }
