package relay

import (
	"bytes"
	"encoding/binary"

	xhpack "golang.org/x/net/http2/hpack"

	"github.com/capgate/capgate/internal/testkit/check"
)

// endpoint is the peer of one of the machine's connections. It follows the protocol and checks that the relay does.
type endpoint struct {
	m      *machine
	client bool
	c      *conn
	link   *fakeLink
	gone   bool   // the connection was cut
	leaves bool   // GOAWAY received; the client must reconnect
	left   bool   // the last GOAWAY received
	wire   []byte // written, not yet delivered
	rest   []byte // received, not yet a whole frame

	enc    *xhpack.Encoder
	encBuf bytes.Buffer
	dec    *xhpack.Decoder
	block  []byte // header block so far
	blockH frameHeader

	sendConn int   // bytes that the relay permits the endpoint to send
	recvConn int   // bytes that the endpoint permits the relay to send
	unread   int   // received bytes of recvConn that are not yet credited
	windows  []int // SETTINGS_INITIAL_WINDOW_SIZE as sent; the first is the protocol's
	acked    int   // number of windows that the relay has acknowledged
	settings []bool
	pings    [][]byte // sent, not yet answered
	lastID   uint32
	lastGood uint32 // of the GOAWAY sent
	sides    map[uint32]*side
}

// side is a call as an endpoint sees it.
type side struct {
	call   *call
	e      *endpoint
	id     uint32
	born   int // number of windows sent (client) or acknowledged (backend) at its begin
	send   int // window of the endpoint's output
	recv   int // window of the relay
	unread int
	got    int
	sent   int

	gotHead, gotEnd, gotReset    bool
	sentHead, sentEnd, sentReset bool
	code                         errCode // of gotReset
	sentCode                     errCode // of sentReset
	status                       string  // grpc-status received
	began                        int64   // when the backend got the call, as shard.clock
	credited                     bool    // the backend has given credit for the request
	// the backend refused or disowned the call after it had counted as accepted, by time or by credit
	late bool
}

func newEndpoint(m *machine, client bool) *endpoint {
	e := &endpoint{
		m: m, client: client, link: &fakeLink{room: plenty},
		sendConn: initialWindow, recvConn: initialWindow, windows: []int{initialWindow},
		lastGood: maxStreamID, sides: map[uint32]*side{},
	}
	e.enc = xhpack.NewEncoder(&e.encBuf)
	e.dec = xhpack.NewDecoder(4096, nil)
	return e
}

// hello sends the first SETTINGS.
func (e *endpoint) hello(maxOpen uint32) {
	e.wire = append(appendFrameHeader(e.wire, 6, frameSettings, 0, 0),
		appendSetting(nil, settingMaxStreams, maxOpen)...)
	e.settings = append(e.settings, false)
}

func (e *endpoint) frame(typ, flags byte, id uint32, payload []byte) {
	e.wire = append(appendFrameHeader(e.wire, len(payload), typ, flags, id), payload...)
}

// window sends a new SETTINGS_INITIAL_WINDOW_SIZE.
func (e *endpoint) window(v int) {
	e.frame(frameSettings, 0, 0, appendSetting(nil, settingInitialWindow, uint32(v)))
	e.settings = append(e.settings, true)
	e.windows = append(e.windows, v)
}

// headers sends a block, cut into frames at random.
func (e *endpoint) headers(id uint32, fields []xhpack.HeaderField, end bool) {
	e.encBuf.Reset()
	for _, f := range fields {
		check.Must(e.m.t, e.enc.WriteField(f))
	}
	block := e.encBuf.Bytes()
	typ, flags := byte(frameHeaders), endFlag(end)
	for first := true; first || len(block) > 0; first = false {
		n := min(len(block), maxFrame)
		if e.m.rng.IntN(8) == 0 && n > 0 && len(block) < 2*maxFrame {
			n = e.m.rng.IntN(n + 1)
		}
		if n == len(block) {
			flags |= flagEndHeaders
		}
		e.frame(typ, flags, id, block[:n])
		if block = block[n:]; flags&flagEndHeaders != 0 {
			return
		}
		typ, flags = frameContinuation, 0
	}
}

// data sends p, sometimes with padding, which counts against the windows too.
func (e *endpoint) data(s *side, p []byte, end bool) {
	if room := min(s.send, e.sendConn) - len(p); room > 0 && len(p) < maxFrame-300 && e.m.rng.IntN(6) == 0 {
		pad := e.m.rng.IntN(min(room, 256))
		s.send -= len(p) + 1 + pad
		e.sendConn -= len(p) + 1 + pad
		p = append(append([]byte{byte(pad)}, p...), make([]byte, pad)...)
		e.frame(frameData, flagPadded|endFlag(end), s.id, p)
		return
	}
	s.send -= len(p)
	e.sendConn -= len(p)
	e.frame(frameData, endFlag(end), s.id, p)
}

func (e *endpoint) reset(s *side, code errCode) {
	s.sentReset, s.sentCode = true, code
	e.frame(frameRSTStream, 0, s.id, appendUint32(nil, uint32(code)))
}

// ping sends a PING, which the relay must answer.
func (e *endpoint) ping() {
	p := make([]byte, 8)
	binary.BigEndian.PutUint64(p, e.m.rng.Uint64())
	e.pings = append(e.pings, p)
	e.frame(framePing, 0, 0, p)
}

// onPing handles a PING of the relay, or its answer to the oldest PING.
func (e *endpoint) onPing(fh frameHeader, p []byte) {
	if fh.flags&flagAck == 0 {
		e.frame(framePing, flagAck, 0, p)
		return
	}
	if len(e.pings) == 0 || !bytes.Equal(e.pings[0], p) {
		e.m.t.Fatalf("client %v: answer %x to a PING that was not sent", e.client, p)
	}
	e.pings = e.pings[1:]
}

// update credits n bytes to a stream, or to the connection if s is nil.
func (e *endpoint) update(s *side, n int) {
	var id uint32
	if s != nil {
		id = s.id
		s.unread -= n
		s.recv += n
		s.credited = true
	} else {
		e.unread -= n
		e.recvConn += n
	}
	e.frame(frameWindowUpdate, 0, id, appendUint32(nil, uint32(n)))
}

// parse handles all whole frames that were received.
func (e *endpoint) parse() {
	if !e.client && bytes.HasPrefix(e.rest, []byte("PRI")) {
		if len(e.rest) < len(preface) {
			return
		}
		e.rest = e.rest[len(preface):]
	}
	for len(e.rest) >= frameHeaderLen {
		fh := parseFrameHeader(e.rest)
		if len(e.rest) < frameHeaderLen+fh.length {
			return
		}
		e.onFrame(fh, e.rest[frameHeaderLen:frameHeaderLen+fh.length])
		e.rest = e.rest[frameHeaderLen+fh.length:]
	}
}

func (e *endpoint) onFrame(fh frameHeader, p []byte) {
	t := e.m.t
	if fh.length > maxFrame {
		t.Fatalf("frame of %d bytes", fh.length)
	}
	if e.block != nil && fh.typ != frameContinuation {
		t.Fatalf("header block interrupted by frame type %d", fh.typ)
	}
	switch fh.typ {
	case frameSettings:
		if fh.flags&flagAck != 0 {
			e.onAck()
		} else {
			e.frame(frameSettings, flagAck, 0, nil)
		}
	case frameHeaders:
		e.block, e.blockH = append([]byte{}, p...), fh
		e.endBlock(fh)
	case frameContinuation:
		e.block = append(e.block, p...)
		e.endBlock(fh)
	case frameData:
		e.onData(fh, p)
	case frameWindowUpdate:
		if n := int(be32(p)); fh.stream == 0 {
			e.sendConn += n
		} else if s := e.sides[fh.stream]; s != nil {
			s.send += n
			if s.send > initialWindow+readAhead {
				t.Fatalf("client %v: stream %d got %d bytes back that were not sent", e.client, s.id,
					s.send-initialWindow)
			}
		}
	case frameRSTStream:
		s := e.sides[fh.stream]
		if s == nil || s.gotReset {
			t.Fatalf("RST_STREAM on unknown or reset stream %d; it is known: %t", fh.stream, s != nil)
		}
		s.gotReset, s.code = true, errCode(be32(p))
	case framePing:
		e.onPing(fh, p)
	case frameGoAway:
		e.onGoAway(be32(p)&maxStreamID, errCode(be32(p[4:])), p[8:])
	}
}

// onGoAway handles the two GOAWAYs of a connection that is being replaced. The first disowns nothing. The second
// disowns no stream that the client began before it answered the PING between them.
func (e *endpoint) onGoAway(last uint32, code errCode, why []byte) {
	switch {
	case !e.client || code != errNone || e.left:
		e.m.t.Fatalf("client %v: GOAWAY %d: %s", e.client, code, why)
	case !e.leaves:
		if e.leaves = true; last != maxStreamID {
			e.m.t.Fatalf("the first GOAWAY disowns streams above %d", last)
		}
	default:
		if e.left = true; last != e.lastID {
			e.m.t.Fatalf("the last GOAWAY takes streams up to %d, of %d", last, e.lastID)
		}
	}
}

// onAck applies the oldest unacknowledged window. The relay sent everything before it under the previous one.
func (e *endpoint) onAck() {
	if len(e.settings) == 0 {
		e.m.t.Fatal("acknowledged SETTINGS that were not sent")
	}
	isWindow := e.settings[0]
	if e.settings = e.settings[1:]; !isWindow {
		return
	}
	e.acked++
	for _, s := range e.sides {
		if s.born < e.acked {
			s.recv += e.windows[e.acked] - e.windows[e.acked-1]
		}
	}
}

func (e *endpoint) endBlock(fh frameHeader) {
	if fh.flags&flagEndHeaders == 0 {
		return
	}
	fields, err := e.dec.DecodeFull(e.block)
	if err != nil {
		e.m.t.Fatalf("header block: %v", err)
	}
	e.block = nil
	e.onHeaders(e.blockH.stream, fields, e.blockH.flags&flagEndStream != 0)
}

func (e *endpoint) onData(fh frameHeader, p []byte) {
	t := e.m.t
	s := e.sides[fh.stream]
	if s == nil || !s.gotHead || s.gotEnd || s.gotReset {
		t.Fatalf("client %v: DATA on stream %d that is not open: %+v", e.client, fh.stream, s)
	}
	if e.recvConn -= fh.length; e.recvConn < 0 {
		t.Fatalf("connection window overrun by %d", -e.recvConn)
	}
	if s.recv -= fh.length; s.recv < 0 && fh.length > 0 {
		t.Fatalf("client %v: window of stream %d overrun by %d", e.client, s.id, -s.recv)
	}
	e.unread += fh.length
	s.unread += fh.length
	s.call.check(s, p)
	s.got += len(p)
	if fh.flags&flagEndStream != 0 {
		s.gotEnd = true
	}
}
