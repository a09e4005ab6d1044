package relay

import (
	"fmt"
	"time"
)

// How a connection writes, waits and ends.

// flush writes the pending output. It keeps no reference to a read buffer.
func (c *conn) flush() {
	c.dirty = false
	if c.closed || c.blocked {
		return
	}
	if c.out.size > 0 {
		iov := c.out.pieces(c.sh.iov[:0])
		n, err := c.link.write(iov)
		if err != nil {
			c.outputFailed(fmt.Errorf("write: %w", err))
			return
		}
		c.traffic.add(c.sh.now, n)
		c.burst = len(c.out.buf)
		c.out.wrote(&c.sh.buffers, n, iov)
		clear(iov)
		c.sh.iov = iov[:0]
		c.blocked = c.out.size > 0
		c.chargeOutput()
	}
	if c.blocked {
		c.stalled = c.stalled || c.clogged()
		return
	}
	if c.ending {
		c.link.finish()
		return
	}
	c.resumeStreams()
	if c.pool != nil {
		c.pool.dispatch()
	}
	c.closeIfDone()
}

// outputFailed handles a failure of the link to write. A backend may have responded before it closed the connection, so
// its input is read to the end, for at most lingerTime. Nothing more is written.
func (c *conn) outputFailed(err error) {
	switch {
	case c.failed:
	case c.pool == nil, c.ending, c.streams.count == 0:
		c.lost(err)
	default:
		c.failed, c.blocked, c.draining, c.since = true, true, true, c.sh.now
		c.sh.buffers.put(c.out.buf)
		c.out = output{}
		c.chargeOutput()
		c.pool.gone(c, err)
		c.setTimer()
	}
}

// relieve writes before the end of the turn if the turn has produced much output, and pauses the input of a client
// with too much pending output. It returns false if the client must not receive another response's headers.
func (c *conn) relieve() bool {
	if c.out.size >= burstLimit && !c.blocked {
		c.flush()
	}
	c.stalled = c.stalled || c.clogged()
	return c.out.size <= headersLimit
}

// clogged reports whether a client has so much pending output other than DATA that its input must be paused. DATA has
// its windows, and two peers that both wait for the other to read would deadlock: therefore the input of a backend is
// never paused, because it may be a relay too.
func (c *conn) clogged() bool {
	return c.pool == nil && c.blocked && c.out.size-c.out.data > outLimit
}

// writable is called by the link once it can accept more output.
func (c *conn) writable() {
	if c.closed || c.failed {
		return
	}
	c.blocked = false
	c.lastRead = c.sh.now // the peer has read something
	if c.pingSent != 0 {
		c.pingSent = c.sh.now // for which the PING may have had to wait
	}
	c.flush()
	if c.closed {
		return
	}
	c.resumeStreams()
	if c.stalled && !c.clogged() {
		c.unstall()
	}
}

// unstall resumes the input, starting with the backlog.
func (c *conn) unstall() {
	c.stalled = false
	if c.backlog != nil {
		c.feedBacklog()
	}
	if !c.stalled {
		c.link.resume()
	}
}

// fail ends the connection because of a protocol error of its peer.
func (c *conn) fail(err *connError) {
	if c.ending || c.closed {
		return
	}
	c.sh.relay.cfg.Log.Debug("http2 connection error", "error", err.why, "code", uint32(err.code), "upstream",
		c.pool != nil)
	c.writeGoAway(c.lastPeerID(), err.code, err.why)
	failure := ClientProtocol
	if c.pool != nil {
		failure = UpstreamProtocol
	}
	c.end(failure, err)
}

// lastPeerID returns the id of the last stream that the peer opened.
func (c *conn) lastPeerID() uint32 {
	if c.pool != nil {
		return 0
	}
	return c.lastID
}

// end ends the connection: its streams end with failure, its input is ignored, and it is closed when its output is
// written or lingerTime has passed.
func (c *conn) end(failure Failure, err error) {
	c.ending, c.draining, c.since = true, true, c.sh.now
	if c.pool != nil {
		c.pool.gone(c, err)
	}
	c.streams.each(func(h *half) { h.stream.lost(h, failure) })
	c.setTimer()
	c.markDirty()
}

// lost handles the end of the connection's socket. It may be called repeatedly.
func (c *conn) lost(err error) {
	if c.closed {
		return
	}
	c.closed, c.ending, c.draining = true, true, true
	c.sh.wheel.clear(&c.timer)
	delete(c.sh.conns, c)
	failure := ClientGone
	if c.pool != nil {
		failure = UpstreamLost
		c.pool.gone(c, err)
	}
	c.streams.each(func(h *half) { h.stream.lost(h, failure) })
	c.sh.buffers.put(c.out.buf)
	c.sh.buffers.put(c.partial)
	c.sh.buffers.put(c.block.buf)
	c.sh.buffers.put(c.backlog)
	c.out, c.partial, c.block.buf, c.backlog, c.unsent = output{}, nil, nil, nil, 0
	c.recount()
	c.link.close()
	if len(c.sh.conns) == 0 {
		c.sh.buffers = bufferPool{most: c.sh.buffers.most}
	}
	c.sh.relay.connGone(c)
}

// streamGone is called when a stream has left the connection.
func (c *conn) streamGone() {
	if c.streams.count == 0 {
		c.quiet = c.sh.now
		if !c.closed {
			c.setTimer()
		}
		c.closeIfDone()
	}
	if c.pool != nil && !c.ending {
		c.pool.dispatch()
		c.pool.idle(c)
	}
}

// closeIfDone closes a draining connection without streams once its peer has read all output. A slow reader may delay
// the end of a call.
func (c *conn) closeIfDone() {
	if c.draining && !c.ending && c.streams.count == 0 && c.drainPhase != drainAnnounced && c.out.size == 0 {
		c.end(NoFailure, ErrGoAway)
	}
}

type drainPhase uint8

const (
	notDraining    drainPhase = iota
	drainAnnounced            // GOAWAY with the highest id and a PING were sent
	drainFinal                // GOAWAY with the last id was sent
)

// drainPing is the data of the PING whose response proves that the peer has received the GOAWAY.
const drainPing = 0x6361706761746521

// drain makes a client move elsewhere, in two steps, so that no request in flight is lost (RFC 9113 §6.8).
func (c *conn) drain() {
	if c.drainPhase != notDraining || c.ending {
		return
	}
	if !c.settled {
		c.lost(errIdle)
		return
	}
	c.drainPhase = drainAnnounced
	if c.pingSent == 0 {
		c.pingSent = c.sh.now // its response is required like any other
		c.setTimer()
	}
	c.writeGoAway(maxStreamID, errNone, "")
	c.writePing(drainPing)
}

func (c *conn) onDrainPing(p []byte) {
	if c.drainPhase == drainAnnounced && be32(p) == drainPing>>32 {
		c.drainPhase, c.draining = drainFinal, true
		c.writeGoAway(c.lastPeerID(), errNone, "")
		c.closeIfDone()
	}
}

// lingerTime is the time that the peer has to read the last output, and that its last input takes at most.
const lingerTime = int64(time.Second)

// startClock starts the time that the peer has to finish what it has started.
func (c *conn) startClock() {
	if !c.failed {
		c.since = c.sh.now
		c.setTimer()
	}
}

// unfinished reports whether the peer has started something that it must finish in time: its preface, a header block,
// or a frame other than the body of a DATA frame.
func (c *conn) unfinished() bool { return !c.settled || c.block.active || len(c.partial) > 0 }

func (c *conn) setupTimeout() int64 {
	if c.pool != nil && !c.settled {
		return int64(c.pool.upstream.cfg.DialTimeout)
	}
	return int64(c.sh.relay.cfg.Timeouts.Setup)
}

// setTimer sets the next time at which the connection must be checked.
func (c *conn) setTimer() {
	cfg := &c.sh.relay.cfg
	var when int64
	switch {
	case c.closed:
		return
	case c.ending, c.failed:
		when = c.since + lingerTime
	case c.unfinished():
		when = c.since + c.setupTimeout()
	case c.pingSent != 0:
		when = c.pingOpenSince() + int64(cfg.Timeouts.Ping)
	case c.streams.count == 0 && c.pool != nil:
		when = c.quiet + int64(cfg.Timeouts.Idle)
	default:
		when = c.lastRead + int64(c.keepAlive())
		if c.streams.count == 0 {
			when = min(when, c.quiet+int64(cfg.Timeouts.Idle))
		}
	}
	if c.replaceAt != 0 && !c.ending {
		when = min(when, c.replaceAt)
	}
	// A timer that fires early is set again; it must not fire late.
	if c.timer.when == 0 || when < c.timer.when {
		c.sh.wheel.set(&c.timer, max(when, c.sh.now+tick))
	}
}

func (c *conn) keepAlive() time.Duration {
	if c.pool != nil {
		return c.pool.upstream.cfg.KeepAlive
	}
	return c.sh.relay.cfg.Timeouts.KeepAlive
}

func (c *conn) expire() {
	cfg := &c.sh.relay.cfg
	now := c.sh.now
	if c.replaceAt != 0 && now >= c.replaceAt && c.settled && !c.ending {
		c.replace()
	}
	switch {
	case c.ending, c.failed:
		if now-c.since >= lingerTime {
			c.lost(ErrClosed)
			return
		}
	case c.unfinished():
		if now-c.since >= c.setupTimeout() {
			c.lost(errSlow)
			return
		}
	case c.pingSent != 0:
		if now-c.pingOpenSince() >= int64(cfg.Timeouts.Ping) {
			c.lost(errPingTimeout)
			return
		}
	case c.streams.count == 0 && now-c.quiet >= int64(cfg.Timeouts.Idle):
		c.writeGoAway(c.lastPeerID(), errNone, "")
		c.end(NoFailure, errIdle)
		return
	case now-c.lastRead >= int64(c.keepAlive()) && (c.pool == nil || c.streams.count > 0):
		c.ping()
	}
	c.setTimer()
}
