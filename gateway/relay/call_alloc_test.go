package relay

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/capgate/capgate/gateway/relay/hpack"
	"github.com/capgate/capgate/internal/testkit/check"
)

// bare has one connection of a client and one to a backend, without sockets.
type bare struct {
	sh           *shard
	client, back *conn
	in, out      *fakeLink // of the client and of the backend
	buf          []byte
	enc          *hpack.Encoder // of the client; a backend's blocks never change
	fields       *hpack.Interner
	next         uint32 // the next stream of both connections
	web          bool   // the http.Handler has received a request
}

// bareHandler reads the first message of a call and forwards it.
type bareHandler struct {
	up    *Upstream
	group *Group

	charge bool // charge calls to group
}

func (h *bareHandler) Headers(s *Stream) {
	if h.charge {
		s.Charge(h.group)
	}
	if h.group != nil {
		s.Join(h.group)
		s.Limit(Limits{Bytes: 1 << 40, Messages: 1 << 40})
	}
	s.ReadMessage()
}
func (h *bareHandler) Message(s *Stream, _ Message) { s.Forward(h.up) }
func (h *bareHandler) Unsent(s *Stream, _ error)    { s.Refuse(Status{Code: codeUnavailable}) }
func (h *bareHandler) Again(*Stream, Answer) bool   { return false }
func (h *bareHandler) Done(*Stream, *Result)        {}
func (h *bareHandler) Explain(*Stream, Failure) Status {
	return Status{Code: codeInternal}
}

func newBare(t testing.TB) *bare {
	h := &bareHandler{}
	b := &bare{}
	r := New(Config{Shards: 1, Web: func(*Stream) { b.web = true }}, h, http.NotFoundHandler())
	check.Cleanup(t, r.Close)
	*b = bare{
		sh: r.shards[0], in: &fakeLink{room: plenty}, out: &fakeLink{room: plenty},
		buf: make([]byte, frameHeaderLen+readBuffer), enc: hpack.NewEncoder(), fields: hpack.NewInterner(nil), next: 1,
	}
	h.up = r.NewUpstream(UpstreamConfig{Dial: func(ctx context.Context) (net.Conn, error) {
		<-ctx.Done()
		return nil,
			ctx.Err()
	}})
	b.sh.enter()
	b.client = newConn(b.sh, nil, b.in, nil)
	p := b.sh.poolOf(h.up)
	p.dialing++
	b.back = newConn(b.sh, p, b.out, nil)
	b.sh.leave()
	settings := appendFrameHeader(nil, 0, frameSettings, 0, 0)
	settings = appendUint32(appendFrameHeader(settings, 4, frameWindowUpdate, 0, 0), 1<<30)
	b.feed(b.client, append([]byte(preface), settings...))
	b.feed(b.back, settings)
	return b
}

// feed feeds bytes to a connection, in a turn of their own.
func (b *bare) feed(c *conn, p []byte) {
	n := copy(b.buf[frameHeaderLen:], p)
	b.sh.enter()
	c.feed(b.buf, frameHeaderLen, frameHeaderLen+n)
	b.sh.leave()
	b.in.out, b.out.out = b.in.out[:0], b.out.out[:0]
}

// request appends a call as grpc-go encodes it, with the given timeout.
func (b *bare) request(p []byte, timeout string, body []byte) []byte {
	block := b.enc.Begin(nil)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", "/t.T/Echo"},
		{":authority", "caps.example.com"},
		{"content-type", "application/grpc"}, {"user-agent", "grpc-go/1.85.0"}, {"te", "trailers"}} {
		field := b.fields.Intern(f[0], f[1])
		block = b.enc.Encode(block, &field)
	}
	block = b.enc.EncodeString(block, "grpc-timeout", timeout)
	p = append(appendFrameHeader(p, len(block), frameHeaders, flagEndHeaders, b.next), block...)
	return append(appendFrameHeader(p, len(body), frameData, flagEndStream, b.next), body...)
}

// response appends the response to the same call.
func (b *bare) response(p, body []byte) []byte {
	enc := hpack.NewEncoder()
	enc.SetMaxTable(0)
	head := enc.EncodeString(enc.EncodeString(enc.Begin(nil), ":status", "200"), "content-type", "application/grpc")
	trailers := enc.EncodeString(enc.Begin(nil), "grpc-status", "0")
	p = append(appendFrameHeader(p, len(head), frameHeaders, flagEndHeaders, b.next), head...)
	p = append(appendFrameHeader(p, len(body), frameData, 0, b.next), body...)
	return append(appendFrameHeader(p, len(trailers), frameHeaders, flagEndHeaders|flagEndStream, b.next), trailers...)
}

// TestUnaryCallAllocatesNothing: a unary call in the steady state allocates nothing.
func TestUnaryCallAllocatesNothing(t *testing.T) {
	testAllocatesNothing(t, newBare(t))
}

// TestLimitedCallAllocatesNothing: a call with limits, in a group with a rate, allocates nothing.
func TestLimitedCallAllocatesNothing(t *testing.T) {
	b := newBare(t)
	h := b.sh.relay.handler.(*bareHandler)
	h.group = b.sh.relay.NewGroup(nil, nil)
	h.group.SetRate(1<<40, false)
	testAllocatesNothing(t, b)
}

func testAllocatesNothing(t *testing.T, b *bare) {
	t.Helper()
	message := append([]byte{0, 0, 0, 4, 0}, make([]byte, 1024)...)
	const calls = 3000
	requests, responses := make([][]byte, calls), make([][]byte, calls)
	for i := range calls {
		requests[i] = b.request(nil, string(appendTimeout(nil, 1e9+1000*1000*1000+1000*100*1000))[:8-i%3]+"u", message)
		responses[i] = b.response(nil, message)
		b.next += 2
	}
	i := 0
	one := func() {
		b.feed(b.client, requests[i])
		b.feed(b.back, responses[i])
		i++
	}
	for range calls / 3 {
		one()
	}
	if got := testing.AllocsPerRun(calls/3, one); got != 0 {
		t.Errorf("%v allocations a call", got)
	}
	if b.client.closed || b.client.ending || b.client.streams.count != 0 || b.back.streams.count != 0 ||
		b.back.lastID != uint32(2*i-1) {
		t.Errorf("after %d calls: client over %v with %d streams, backend with %d, last %d", i, b.client.ending,
			b.client.streams.count, b.back.streams.count, b.back.lastID)
	}
}

// FuzzFrames feeds the same bytes of a client and of a backend to two fresh pairs of connections, to one at once and to
// the other in pieces. Both must end in the same state.
func FuzzFrames(f *testing.F) {
	seed := &bare{enc: hpack.NewEncoder(), fields: hpack.NewInterner(nil), next: 1}
	message := []byte{0, 0, 0, 0, 3, 1, 2, 3}
	call, answer := seed.request(nil, "1000000u", message), seed.response(nil, message)
	for _, client := range [][]byte{
		call,
		append(call, appendUint32(appendFrameHeader(nil, 4, frameRSTStream, 0, 1), 8)...),
		append(call, appendUint32(appendFrameHeader(nil, 4, frameWindowUpdate, 0, 0), 100)...),
		append(appendSetting(appendFrameHeader(nil, 6, frameSettings, 0, 0), settingInitialWindow, 1), call...),
		appendFrameHeader(call, 0, frameContinuation, 0, 1),
		append(appendFrameHeader(nil, 8, framePing, 0, 0), 1, 2, 3, 4, 5, 6, 7, 8),
		appendFrameHeader(nil, 1<<20, frameData, flagPadded, 1),
	} {
		f.Add(client, answer, uint8(1))
		f.Add(client, append(appendFrameHeader(nil, 8, frameGoAway, 0, 0), 0, 0, 0, 0, 0, 0, 0, 0), uint8(7))
	}
	f.Fuzz(func(t *testing.T, client, back []byte, piece uint8) {
		if len(client) > 1<<16 || len(back) > 1<<16 {
			return
		}
		whole, pieces := newBare(t), newBare(t)
		whole.feed(whole.client, client)
		whole.feed(whole.back, back)
		for _, of := range []struct {
			c *conn
			p []byte
		}{{pieces.client, client}, {pieces.back, back}} {
			for p := of.p; len(p) > 0 && !of.c.closed; {
				n := min(len(p), int(piece)+1)
				pieces.feed(of.c, p[:n])
				p = p[n:]
			}
		}
		a, b := whole.state(), pieces.state()
		if a.web || b.web {
			return // the process serves this call at its own pace
		}
		if a != b {
			t.Errorf("at once %+v, in pieces %+v", a, b)
		}
	})
}

// bareState is the comparable state of the connections of a bare.
type bareState struct {
	web                        bool // the http.Handler has a request
	clientOver, backOver       bool
	clientStreams, backStreams int
}

func (b *bare) state() bareState {
	b.sh.enter()
	defer b.sh.leave()
	return bareState{b.web, b.client.ending, b.back.ending, b.client.streams.count, b.back.streams.count}
}

func (h *bareHandler) Started(*Stream) {}

func (h *bareHandler) Exceeded(*Stream, Failure) bool { return true }
