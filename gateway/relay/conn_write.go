package relay

import (
	"github.com/capgate/capgate/gateway/relay/hpack"
)

// aheadLimit is the maximum number of bytes that a shard preallocates for its connections' output in one turn.
const aheadLimit = 2 << 20

// space returns the connection's output buffer with room for n more bytes. The caller must return the extended buffer
// with write.
//
// The first buffer of a turn is as large as the last output of the connection, so that a continuing burst does not
// grow its buffer again each time. aheadLimit bounds that per turn, so that single frames for many connections need
// little memory.
func (c *conn) space(n int) []byte {
	if sh := c.sh; c.out.buf == nil && n < c.burst && sh.ahead < aheadLimit {
		sh.ahead += c.burst
		n = c.burst
	}
	c.out.buf = c.sh.buffers.grow(c.out.buf, n)
	return c.out.buf
}

func (c *conn) write(buf []byte) {
	c.out.size += len(buf) - len(c.out.buf)
	c.out.buf = buf
	c.markDirty()
	if c.out.size > controlLimit && c.blocked && !c.ending {
		c.sh.later(func() { c.lost(errNotReading) })
	}
}

func (c *conn) markDirty() {
	if !c.dirty && !c.blocked {
		c.dirty = true
		c.sh.dirty = append(c.sh.dirty, c)
	}
}

// writeHello sends the first data of an HTTP/2 endpoint: SETTINGS, preceded by the preface for a client.
func (c *conn) writeHello() {
	cfg := &c.sh.relay.cfg
	b := c.space(128)
	settings := make([]byte, 0, 32)
	if c.pool != nil {
		b = append(b, preface...)
		settings = appendSetting(settings, settingEnablePush, 0)
	} else {
		settings = appendSetting(settings, settingMaxStreams, cfg.HTTP2.MaxStreams)
	}
	settings = appendSetting(settings, settingMaxHeaderListSize, uint32(cfg.HTTP2.MaxHeaderList))
	if cfg.HTTP2.StreamWindow != initialWindow {
		settings = appendSetting(settings, settingInitialWindow, uint32(cfg.HTTP2.StreamWindow))
	}
	b = append(appendFrameHeader(b, len(settings), frameSettings, 0, 0), settings...)
	if more := cfg.HTTP2.ConnWindow - initialWindow; more > 0 {
		b = appendUint32(appendFrameHeader(b, 4, frameWindowUpdate, 0, 0), uint32(more))
	}
	c.write(b)
}

func (c *conn) writeWindowUpdate(stream uint32, n int) {
	c.write(appendUint32(appendFrameHeader(c.space(frameHeaderLen+4), 4, frameWindowUpdate, 0, stream), uint32(n)))
}

func (c *conn) writeReset(stream uint32, code errCode) {
	c.reset.add(stream)
	c.write(appendUint32(appendFrameHeader(c.space(frameHeaderLen+4), 4, frameRSTStream, 0, stream), uint32(code)))
}

func (c *conn) writeGoAway(last uint32, code errCode, why string) {
	b := appendFrameHeader(c.space(frameHeaderLen+8+len(why)), 8+len(why), frameGoAway, 0, 0)
	b = appendUint32(appendUint32(b, last), uint32(code))
	c.write(append(b, why...))
}

func (c *conn) writePing(data uint64) {
	b := appendFrameHeader(c.space(frameHeaderLen+8), 8, framePing, 0, 0)
	c.write(appendUint32(appendUint32(b, uint32(data>>32)), uint32(data)))
}

// room returns the number of bytes of data that the connection accepts now for a stream.
func (c *conn) room(h *half) int {
	if c.full() {
		return 0
	}
	return min(h.sendWin, c.sendWin)
}

// full reports whether enough output is pending, for a blocked socket or for the end of the turn.
func (c *conn) full() bool {
	return c.blocked && c.out.size >= outLimit || c.out.size >= burstLimit
}

// writeData sends n bytes at buf[pos:], which are in the read buffer of this turn. Long data is sent from there, with
// the frame header written before it. A frame has at most maxFrame bytes, so n has too.
func (c *conn) writeData(h *half, buf []byte, pos, n int, end bool) {
	if n < copyBelow || c.blocked { // a blocked connection is not flushed before buf is reused
		c.copyData(h, buf[pos:pos+n], end)
		return
	}
	c.spend(h, n, end)
	putFrameHeader(buf[pos-frameHeaderLen:], n, frameData, endFlag(end), h.id)
	c.out.refer(buf[pos-frameHeaderLen : pos+n])
	c.markDirty()
}

// copyData sends a copy of p, at most maxFrame bytes.
func (c *conn) copyData(h *half, p []byte, end bool) {
	c.spend(h, len(p), end)
	c.out.data += frameHeaderLen + len(p)
	b := appendFrameHeader(c.space(frameHeaderLen+len(p)), len(p), frameData, endFlag(end), h.id)
	c.write(append(b, p...))
}

func (c *conn) spend(h *half, n int, end bool) {
	h.sendWin -= n
	c.sendWin -= n
	h.sentEnd = h.sentEnd || end
}

func endFlag(end bool) byte {
	if end {
		return flagEndStream
	}
	return 0
}

// blockWriter encodes a header block into the output.
type blockWriter struct {
	local *localEnd   // the block is not encoded
	list  *hpack.List // of a local end
	c     *conn
	b     []byte
	start int
}

func (c *conn) beginBlock() blockWriter {
	b := c.space(512)
	start := len(b)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	return blockWriter{c: c, b: c.enc.Begin(b), start: start}
}

func (w *blockWriter) field(f *hpack.Field) {
	if w.list != nil {
		w.list.Fields = append(w.list.Fields, *f)
		return
	}
	w.b = w.c.enc.Encode(w.room(f.Name, f.Value), f)
}

func (w *blockWriter) text(name, value string) {
	if w.list != nil {
		w.textLocal(name, value)
		return
	}
	w.b = w.c.enc.EncodeString(w.room(name, value), name, value)
}

// room reserves space for a field, so that append does not allocate outside the pool.
func (w *blockWriter) room(name, value string) []byte {
	return w.c.sh.buffers.grow(w.b, len(name)+len(value)+16)
}

// end ends the block's frame, and splits a long block into CONTINUATION frames.
func (w *blockWriter) end(h *half, end bool) {
	if w.list != nil {
		w.endLocal(h, end)
		return
	}
	n := len(w.b) - w.start - frameHeaderLen
	if n <= maxFrame {
		putFrameHeader(w.b[w.start:], n, frameHeaders, flagEndHeaders|endFlag(end), h.id)
	} else {
		block := append([]byte(nil), w.b[w.start+frameHeaderLen:]...)
		w.b = w.b[:w.start]
		typ, flags := byte(frameHeaders), endFlag(end)
		for len(block) > 0 {
			part := block[:min(len(block), maxFrame)]
			if block = block[len(part):]; len(block) == 0 {
				flags |= flagEndHeaders
			}
			w.b = append(appendFrameHeader(w.b, len(part), typ, flags, h.id), part...)
			typ, flags = frameContinuation, 0
		}
	}
	w.c.write(w.b)
	h.sentEnd = h.sentEnd || end
}
