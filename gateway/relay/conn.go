package relay

import (
	"encoding/binary"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// outLimit is how many bytes may wait in a connection whose socket takes no more
// before its streams keep theirs.
const outLimit = 64 << 10

// burstLimit is how many bytes one turn may put into a connection that has not
// said yet whether its socket takes them.
const burstLimit = 320 << 10

// controlLimit ends a connection whose peer makes us answer but does not read.
const controlLimit = 1 << 20

// headersLimit is how many bytes may wait in a client's connection for it to take
// another response's headers. It leaves room for statuses below controlLimit: what
// backends send never ends a client's connection.
const headersLimit = 384 << 10

// link carries a connection's bytes. Its methods are called with the shard locked.
type link interface {
	// write takes as many bytes of the pieces as it can without blocking, and keeps
	// none of the slices. After it took fewer than all, it calls conn.writable once
	// it can take more.
	write(pieces [][]byte) (int, error)
	// finish ends the output after what was written; the input may still come.
	finish()
	// close ends both.
	close()
	// resume is called when the conn wants input again after it was stalled.
	resume()
	// holds is how many bytes it keeps for what was written.
	holds() int
}

// conn is one HTTP/2 connection, as a state machine: bytes in by feed, bytes out
// through its link. It serves a client, or, when pool is set, talks to a backend.
type conn struct {
	sh   *shard
	link link
	pool *pool // nil means we are the server
	peer *Peer // whose it is; never nil, and only told when we are the server

	partial []byte // the beginning of a frame (or of the preface)
	greeted bool   // the preface is complete; always true for a client
	settled bool   // the peer's first SETTINGS came
	body    bodyFrame
	block   headerBlock
	dec     *hpack.Decoder
	enc     *hpack.Encoder

	sendWin    int // what we may send, all streams together
	recvWin    int // what the peer may still send
	uncredited int // received, not yet replenished

	peerMaxStreams uint32
	peerWindow     int // the peer's SETTINGS_INITIAL_WINDOW_SIZE

	streams streamTable
	lastID  uint32   // the highest stream id of this connection so far
	reset   resetIDs // streams that we reset a short while ago
	waiting halfList // have bytes to send that the connection could not take

	own       ledger // of what it holds for itself
	ungrouped ledger // of its streams without a group
	grouped   bool   // own is that of a group
	charged   int64  // to own
	unsent    int    // bytes of out that the link did not take

	out     output
	burst   int    // bytes that out.buf had when it was written last
	dirty   bool   // in sh.dirty
	blocked bool   // the link took less than all and will call writable
	stalled bool   // input is not read until the output drains
	backlog []byte // input that was read already when the conn stalled, or its turn was over

	drainPhase drainPhase
	replaceAt  int64 // when drain is due, and then the end of the remaining calls; 0 means never
	draining   bool  // no new streams: GOAWAY was sent or received
	ending     bool  // input is ignored; closed once the output is written
	closed     bool
	left       bool // its pool does not count on it any more

	queuedAt  int64  // when it was in shard.runQueue last
	checkedID uint32 // lastID at the last checkSensitive
	traffic   traffic

	timer    timer
	began    int64 // when the connection did
	since    int64 // when what has SetupTimeout or lingerTime began
	lastRead int64 // when bytes came last
	quiet    int64 // when the last stream ended
	pingSent int64 // when an unanswered keepalive PING was sent; 0 means none
	pinged   int64 // when the last one was sent; 0 means never
	early    uint8 // of them before their time, see check
	peerState
}

// bodyFrame is the DATA frame that is being read.
type bodyFrame struct {
	half *half // nil means the stream is gone, discard
	left int   // bytes of data to come
	pad  int   // bytes of padding to come after them
	end  bool  // END_STREAM
}

func newConn(sh *shard, p *pool, l link, peer *Peer) *conn {
	account := sh.relay.accountOf(p, peer)
	if peer == nil {
		peer = &Peer{}
	}
	c := &conn{
		sh: sh, link: l, pool: p, peer: peer,
		own:            ledger{account: account, step: connStep},
		ungrouped:      ledger{account: account, step: connStep},
		greeted:        p != nil,
		dec:            hpack.NewDecoder(sh.interner, 4096),
		enc:            hpack.NewEncoder(),
		sendWin:        initialWindow,
		recvWin:        sh.relay.cfg.HTTP2.ConnWindow,
		peerMaxStreams: ^uint32(0),
		peerWindow:     initialWindow,
		began:          sh.now,
		since:          sh.now,
		lastRead:       sh.now,
		quiet:          sh.now,
		peerState:      peerState{guard: floodGuard{since: sh.now}},
	}
	if p == nil {
		c.replaceAt = sh.relay.lifetime(sh.now)
	}
	c.timer.expired = c.expire
	sh.conns[c] = struct{}{}
	c.writeHello()
	c.setTimer()
	return c
}

// feed runs the state machine over buf[pos:end]. It may overwrite buf[pos-9:end],
// and the output may refer to buf until the shard settles. What it leaves is in c.backlog.
func (c *conn) feed(buf []byte, pos, end int) {
	c.lastRead = c.sh.now
	c.traffic.add(c.lastRead, end-pos)
	for pos < end && !c.ending {
		if c.stalled || c.sh.late() && c.putsOff(end-pos) {
			c.backlog = append(c.sh.buffers.grow(c.backlog, end-pos), buf[pos:end]...)
			break
		}
		if n := c.run(buf, pos, end); n > 0 {
			pos += n
			c.relieve()
			continue
		}
		n, err := c.step(buf, pos, end)
		if err != nil {
			c.fail(err)
			break
		}
		pos += n
		c.relieve() // one read can bring thousands of requests that are answered at once
	}
	c.recount()
}

// feedBacklog goes on with what feed left.
func (c *conn) feedBacklog() {
	b := c.backlog
	c.backlog = nil
	end := frameHeaderLen + copy(c.sh.buf[frameHeaderLen:], b)
	c.sh.buffers.put(b)
	c.feed(c.sh.buf, frameHeaderLen, end)
}

// step consumes the next piece of input: a frame, a part of a DATA frame's payload,
// or, when a frame is not complete, all there is.
func (c *conn) step(buf []byte, pos, end int) (int, *connError) {
	if c.body.left > 0 || c.body.pad > 0 {
		return c.moveBody(buf, pos, end), nil
	}
	if len(c.partial) > 0 || !c.greeted {
		return c.complete(buf[pos:end])
	}
	have := end - pos
	if have < frameHeaderLen {
		return c.stash(buf[pos:end]), nil
	}
	fh := parseFrameHeader(buf[pos:])
	need, err := c.needed(fh)
	if err != nil {
		return 0, err
	}
	if have < need {
		return c.stash(buf[pos:end]), nil
	}
	if err := c.onFrame(fh, buf[pos+frameHeaderLen:pos+need], buf, pos+need); err != nil {
		return need, err
	}
	return need, c.checkFlood()
}

// needed is how many bytes of a frame must be there before it is processed: all of
// it, but of DATA only the header and the pad length.
func (c *conn) needed(fh frameHeader) (int, *connError) {
	switch {
	case fh.length > maxFrame:
		return 0, &connError{errFrameSize, "frame too long"}
	case c.block.active && (fh.typ != frameContinuation || fh.stream != c.block.stream):
		return 0, &connError{errProtocol, "header block interrupted"}
	case !c.settled && fh.typ != frameSettings:
		return 0, &connError{errProtocol, "first frame is not SETTINGS"}
	case fh.typ != frameData:
		return frameHeaderLen + fh.length, nil
	case fh.flags&flagPadded != 0:
		if fh.length == 0 {
			return 0, &connError{errFrameSize, "no room for the pad length"}
		}
		return frameHeaderLen + 1, nil
	}
	return frameHeaderLen, nil
}

func (c *conn) stash(p []byte) int {
	if len(c.partial) == 0 && c.settled && !c.block.active {
		c.startClock()
	}
	c.partial = append(c.sh.buffers.grow(c.partial, len(p)), p...)
	return len(p)
}

// complete adds to the stashed beginning of a frame, and processes it when whole.
func (c *conn) complete(p []byte) (int, *connError) {
	need := frameHeaderLen
	if !c.greeted {
		need = len(preface)
	}
	var fh frameHeader
	if c.greeted && len(c.partial) >= frameHeaderLen {
		fh = parseFrameHeader(c.partial)
		var err *connError
		if need, err = c.needed(fh); err != nil {
			return 0, err
		}
	}
	n := c.stash(p[:min(len(p), need-len(c.partial))])
	if len(c.partial) < need {
		return n, nil
	}
	if !c.greeted {
		if string(c.partial) != preface {
			return n, &connError{errProtocol, "bad preface"}
		}
		c.greeted = true
		c.sh.buffers.put(c.partial)
		c.partial = nil
		return n, nil
	}
	if fh = parseFrameHeader(c.partial); need == frameHeaderLen {
		more, err := c.needed(fh)
		if err != nil {
			return n, err
		}
		if more > need {
			return n, nil
		}
	}
	frame := c.partial
	c.partial = nil
	err := c.onFrame(fh, frame[frameHeaderLen:], nil, 0)
	c.sh.buffers.put(frame)
	if err == nil {
		err = c.checkFlood()
	}
	return n, err
}

func (c *conn) onFrame(fh frameHeader, payload []byte, buf []byte, pos int) *connError {
	switch fh.typ {
	case frameData:
		return c.onData(fh, payload, buf, pos)
	case frameHeaders:
		return c.onHeaders(fh, payload)
	case frameContinuation:
		return c.onContinuation(fh, payload)
	case frameRSTStream:
		return c.onReset(fh, payload)
	case frameWindowUpdate:
		return c.onWindowUpdate(fh, payload)
	case frameSettings:
		return c.onSettings(fh, payload)
	case framePing:
		return c.onPing(fh, payload)
	case frameGoAway:
		return c.onGoAway(fh, payload)
	case framePriority:
		return c.onPriority(fh, payload)
	case framePushPromise:
		return &connError{errProtocol, "PUSH_PROMISE"}
	}
	c.guard.addControl(1) // unknown frames are ignored (RFC 9113 §4.1), but not without end
	return nil
}

// onData begins a DATA frame; buf[pos] is where its data will be, if buf is there at all.
func (c *conn) onData(fh frameHeader, padLen []byte, buf []byte, pos int) *connError {
	left, pad := fh.length, 0
	if fh.flags&flagPadded != 0 {
		pad = int(padLen[0])
		left -= 1 + pad
		if left < 0 {
			return &connError{errProtocol, "padding longer than its frame"}
		}
	}
	if fh.stream == 0 || fh.stream > c.lastID {
		return &connError{errProtocol, "DATA on an idle stream"}
	}
	if c.recvWin -= fh.length; c.recvWin < 0 {
		return &connError{errFlowControl, "connection window exceeded"}
	}
	c.credit(fh.length)
	if fh.length == 0 && fh.flags&flagEndStream == 0 || left == 0 && pad > 0 {
		c.guard.addControl(1)
	}
	h := c.streams.get(fh.stream)
	if h == nil {
		c.body = bodyFrame{left: left, pad: pad}
		c.onStray(fh.stream)
		return nil
	}
	if h = h.accept(fh.length, fh.length-left); h == nil {
		c.body = bodyFrame{left: left, pad: pad}
		return nil
	}
	c.body = bodyFrame{half: h, left: left, pad: pad, end: fh.flags&flagEndStream != 0}
	if left == 0 && c.body.end {
		h.stream.receive(h, nil, 0, 0, true)
	}
	return nil
}

// moveBody passes on what there is of the DATA frame being read.
func (c *conn) moveBody(buf []byte, pos, end int) int {
	if c.body.left == 0 {
		n := min(end-pos, c.body.pad)
		c.body.pad -= n
		return n
	}
	n := min(end-pos, c.body.left)
	c.body.left -= n
	if h := c.body.half; h != nil {
		h.stream.receive(h, buf, pos, n, c.body.end && c.body.left == 0)
	}
	return n
}

// onStray answers a frame for a stream that is over. Frames may still be under way
// to a stream that we reset (RFC 9113 §5.1); for another, the peer is told.
func (c *conn) onStray(id uint32) {
	c.guard.addControl(1)
	if !c.reset.has(id) {
		c.writeReset(id, errStreamClosed)
	}
}

// credit gives received bytes back to the peer's connection window. Streams bound
// what is held (half.credit); the connection's window only bounds bursts.
func (c *conn) credit(n int) {
	if c.uncredited += n; c.uncredited >= c.sh.relay.cfg.HTTP2.ConnWindow/2 {
		c.recvWin += c.uncredited
		c.writeWindowUpdate(0, c.uncredited)
		c.uncredited = 0
	}
}

func be32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }
