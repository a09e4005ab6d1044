package relay

import (
	"encoding/binary"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// outLimit is the number of bytes that a blocked connection buffers before its streams buffer theirs.
const outLimit = 64 << 10

// burstLimit is the maximum number of bytes written to a connection in one turn, before its socket has accepted them.
const burstLimit = 320 << 10

// controlLimit is the buffer size at which a connection ends because its peer causes responses but does not read.
const controlLimit = 1 << 20

// headersLimit is the maximum number of buffered bytes of a client's connection for it to accept another response's
// headers. It leaves room for statuses below controlLimit, so that the responses of backends never end a client's
// connection.
const headersLimit = 384 << 10

// link transports a connection's bytes. Its methods are called with the shard locked.
type link interface {
	// write accepts as many bytes of the pieces as it can without blocking, and retains none of the slices. If it
	// accepts fewer than all, it later calls conn.writable once it can accept more.
	write(pieces [][]byte) (int, error)
	// finish ends the output after the pending data. Input may continue.
	finish()
	// close ends both directions.
	close()
	// resume is called when the conn accepts input again after a stall.
	resume()
	// holds returns the number of bytes buffered for output.
	holds() int
}

// conn is an HTTP/2 connection as a state machine: input by feed, output through its link. It serves a client, or, if
// pool is set, connects to a backend.
type conn struct {
	sh   *shard
	link link
	pool *pool // nil means a server
	peer *Peer // the client; never nil, and only used by a server

	partial []byte // start of a frame (or of the preface)
	greeted bool   // the preface is complete; always true if pool is set
	settled bool   // the peer's first SETTINGS were received
	body    bodyFrame
	block   headerBlock
	dec     *hpack.Decoder
	enc     *hpack.Encoder

	sendWin    int // what we may send on all streams
	recvWin    int // what the peer may still send
	uncredited int // received but not yet replenished

	peerMaxStreams uint32
	peerWindow     int // the peer's SETTINGS_INITIAL_WINDOW_SIZE

	streams streamTable
	lastID  uint32   // highest stream id of this connection so far
	reset   resetIDs // streams that we reset recently
	waiting halfList // streams with data that the connection could not accept

	own       ledger // for the connection itself
	ungrouped ledger // for streams without a group
	grouped   bool   // own belongs to a group
	charged   int64  // to own
	unsent    int    // bytes of out that the link did not accept

	out     output
	burst   int    // length of out.buf at the last write
	dirty   bool   // in sh.dirty
	blocked bool   // the link accepted less than all and will call writable
	stalled bool   // input is paused until the output drains
	backlog []byte // input that was read before a stall or the end of a turn

	drainPhase drainPhase
	replaceAt  int64 // start of the drain, then the end of the remaining calls; 0 means never
	draining   bool  // no new streams, because GOAWAY was sent or received
	ending     bool  // input is ignored; the connection is closed once the output is written
	failed     bool  // the link cannot write; the input is read to its end, see outputFailed
	closed     bool
	left       bool // removed from its pool

	queuedAt  int64  // time of the last entry into shard.runQueue
	checkedID uint32 // lastID at the last checkSensitive
	traffic   traffic

	timer    timer
	began    int64 // start of the connection
	since    int64 // start of the current SetupTimeout or lingerTime
	lastRead int64 // time of the last input
	quiet    int64 // end of the last stream
	pingSent int64 // time of an unanswered keepalive PING; 0 means none
	pinged   int64 // time of the last PING; 0 means never
	early    uint8 // number of early PINGs, see check
	peerState
}

// bodyFrame is the DATA frame being read.
type bodyFrame struct {
	half *half // nil means the stream has ended and the data is discarded
	left int   // remaining bytes of data
	pad  int   // remaining bytes of padding
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

// feed runs the state machine over buf[pos:end]. It may overwrite buf[pos-9:end], and the output may refer to buf
// until the shard settles. Unprocessed input is kept in c.backlog.
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
		c.relieve() // a single read can contain thousands of requests that are answered at once
	}
	c.recount()
}

// feedBacklog processes the input that feed left.
func (c *conn) feedBacklog() {
	b := c.backlog
	c.backlog = nil
	end := frameHeaderLen + copy(c.sh.buf[frameHeaderLen:], b)
	c.sh.buffers.put(b)
	c.feed(c.sh.buf, frameHeaderLen, end)
}

// step consumes the next piece of input: a frame, a part of a DATA frame's payload, or, if a frame is incomplete, all
// input.
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

// needed returns the number of bytes of a frame that are required to process it: the whole frame, but for DATA only
// the header and the pad length.
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

// complete extends the stored start of a frame, and processes the frame once it is complete.
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
	c.guard.addControl(1) // unknown frames are ignored (RFC 9113 §4.1), but counted
	return nil
}

// onData starts a DATA frame. buf[pos] is the start of its data, if buf contains any.
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

// moveBody forwards the available data of the current DATA frame.
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

// onStray handles a frame for an ended stream. Frames may still be in flight to a stream that we reset (RFC 9113
// §5.1); for any other stream, the peer is notified.
func (c *conn) onStray(id uint32) {
	c.guard.addControl(1)
	if !c.reset.has(id) {
		c.writeReset(id, errStreamClosed)
	}
}

// credit replenishes the peer's connection window. Memory is limited by the windows of streams (half.credit); the
// connection's window only limits bursts.
func (c *conn) credit(n int) {
	if c.uncredited += n; c.uncredited >= c.sh.relay.cfg.HTTP2.ConnWindow/2 {
		c.recvWin += c.uncredited
		c.writeWindowUpdate(0, c.uncredited)
		c.uncredited = 0
	}
}

func be32(b []byte) uint32 { return binary.BigEndian.Uint32(b) }
