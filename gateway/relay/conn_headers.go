package relay

import (
	"errors"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// headerBlock is a header block in more than one frame.
type headerBlock struct {
	active bool
	stream uint32
	end    bool // END_STREAM
	frames int
	buf    []byte
}

// maxContinuations is the maximum number of CONTINUATION frames of a block.
const maxContinuations = 16

func (c *conn) onHeaders(fh frameHeader, p []byte) *connError {
	c.early = 0
	if fh.stream == 0 || c.pool == nil && fh.stream&1 == 0 {
		return &connError{errProtocol, "HEADERS on an invalid stream"}
	}
	if fh.flags&flagPadded != 0 {
		if len(p) == 0 || int(p[0]) >= len(p) {
			return &connError{errProtocol, "padding longer than its frame"}
		}
		p = p[1 : len(p)-int(p[0])]
	}
	if fh.flags&flagPriority != 0 {
		if len(p) < 5 {
			return &connError{errProtocol, "HEADERS too short for its priority"}
		}
		if be32(p)&maxStreamID == fh.stream {
			return &connError{errProtocol, "stream depends on itself"}
		}
		p = p[5:]
	}
	end := fh.flags&flagEndStream != 0
	if fh.flags&flagEndHeaders != 0 {
		return c.onBlock(fh.stream, end, p)
	}
	c.block = headerBlock{active: true, stream: fh.stream, end: end}
	return c.keepBlock(p)
}

func (c *conn) onContinuation(fh frameHeader, p []byte) *connError {
	if !c.block.active {
		return &connError{errProtocol, "CONTINUATION without HEADERS"}
	}
	if c.block.frames++; c.block.frames > maxContinuations {
		return &connError{errEnhanceYourCalm, "too many CONTINUATIONs"}
	}
	if err := c.keepBlock(p); err != nil || fh.flags&flagEndHeaders == 0 {
		return err
	}
	b := c.block
	c.block = headerBlock{}
	err := c.onBlock(b.stream, b.end, b.buf)
	c.sh.buffers.put(b.buf)
	return err
}

func (c *conn) keepBlock(p []byte) *connError {
	if len(c.block.buf)+len(p) > 2*c.sh.relay.cfg.HTTP2.MaxHeaderList {
		return &connError{errEnhanceYourCalm, "header block too long"}
	}
	c.block.buf = append(c.sh.buffers.grow(c.block.buf, len(p)), p...)
	if c.block.frames == 0 {
		c.startClock()
	}
	return nil
}

// onBlock decodes a complete header block, even if its stream has ended, because later blocks depend on it.
func (c *conn) onBlock(id uint32, end bool, block []byte) *connError {
	c.sh.work += blockWork
	list := c.sh.scratch
	list.Reset()
	err := c.dec.Decode(block, list, c.sh.relay.cfg.HTTP2.MaxHeaderList)
	tooLong := errors.Is(err, hpack.ErrListTooLong)
	if err != nil && !tooLong {
		return &connError{errCompression, err.Error()}
	}
	if h := c.streams.get(id); h != nil {
		h.stream.headers(h, list, end, tooLong)
		return nil
	}
	switch {
	case c.pool != nil && id > c.lastID:
		return &connError{errProtocol, "HEADERS on an idle stream"}
	case c.pool != nil:
		c.guard.addControl(1)
		return nil
	case id <= c.lastID:
		if c.reset.has(id) {
			c.guard.addControl(1)
			return nil
		}
		return &connError{errStreamClosed, "HEADERS on a closed stream"}
	}
	c.lastID = id
	return c.onRequest(id, list, end, tooLong)
}

// maxHeads is the maximum size of the headers of a connection's unanswered requests: thousands of ordinary ones, and a
// few dozen of maximum length (HPACK makes those cheap to send).
const maxHeads = 4 << 20

// onRequest opens a stream.
func (c *conn) onRequest(id uint32, list *hpack.List, end, tooLong bool) *connError {
	c.guard.addStream()
	cfg := &c.sh.relay.cfg
	switch {
	case c.draining, c.streams.count >= int(cfg.HTTP2.MaxStreams), c.heads+list.Size() > maxHeads,
		c.sh.buffered > cfg.Memory.MaxBuffered:
		c.guard.addControl(1)
		c.writeReset(id, errRefusedStream)
		return nil
	}
	s := c.sh.newStream()
	s.open(c, id, c.peerWindow, c.sh.keepScratch(), end)
	if tooLong {
		c.guard.addReset()
		s.checkRequest() // of the part that fits: its method
		s.refuseTooLong()
		return nil
	}
	if !s.checkRequest() {
		s.broken(&s.down, errProtocol)
		return nil
	}
	s.begin()
	return nil
}
