package relay

import "encoding/binary"

// runFrames is the maximum number of frames in a run. The clock is checked between two runs.
const runFrames = 64

// run forwards the frames at buf[pos:end] that are complete, short and plain DATA of unblocked streams, and returns
// their number of bytes. Bursts of small messages consist of such frames. Other frames are left to step, which has the
// same effect but is slower.
func (c *conn) run(buf []byte, pos, end int) int {
	if c.body.left > 0 || c.body.pad > 0 || len(c.partial) > 0 || !c.settled || c.block.active {
		return 0
	}
	begun, frames := pos, 0
	for ; frames < runFrames && end-pos > frameHeaderLen; frames++ {
		head := binary.BigEndian.Uint64(buf[pos:])
		n := int(head >> 40)
		if head&(0xffff<<24) != 0 || n == 0 || n >= copyBelow || end-pos < frameHeaderLen+n || n > c.recvWin {
			break
		}
		h := c.streams.get(be32(buf[pos+5:]) & maxStreamID)
		if h == nil || !h.flows(n) {
			break
		}
		c.recvWin -= n
		c.credit(n)
		frame := buf[pos : pos+frameHeaderLen+n]
		pos += len(frame)
		if !h.stream.passFrame(h, frame) || c.ending {
			break
		}
	}
	c.sh.work += frames
	return pos - begun
}

// flows reports whether n bytes of DATA from this half's peer can be forwarded at once.
func (h *half) flows(n int) bool {
	s := h.stream
	to := &s.down
	if h == to {
		if to = &s.up; s.replay || s.whole {
			return false
		}
	} else if !s.started {
		return false
	}
	c, ok := to.transport.(*conn)
	return ok && s.phase == forwarded && !s.lingers && !h.gotEnd && h.length < 0 && n <= int(h.recvWin) && !c.blocked &&
		to.queue == nil && n <= c.room(to)
}

// passFrame forwards a frame for which flows is true. It returns false if the stream was ended instead.
func (s *Stream) passFrame(h *half, frame []byte) bool {
	n := len(frame) - frameHeaderLen
	h.recvWin -= int32(n)
	h.got += int64(n)
	s.moved(n)
	if s.limit != nil {
		if before, f := s.count(h, frame[frameHeaderLen:]); f != NoFailure {
			s.endExceeded(h, frame, frameHeaderLen, before, f)
			return false
		}
		if h == &s.up && s.limit.out.inPrefix() {
			s.receiveResponse(frame, frameHeaderLen, n, false)
			return s.phase == forwarded
		}
	}
	to := &s.down
	if h == to {
		to = &s.up
		s.result.BytesIn += int64(n)
	} else {
		if s.tap != nil && !s.callBody(frame[frameHeaderLen:]) {
			s.fail(Panicked)
			return false
		}
		s.result.BytesOut += int64(n)
	}
	c := to.transport.(*conn) // h flows
	c.guard.subtract(perData)
	c.spend(to, n, false)
	b := c.out.buf
	if cap(b)-len(b) < len(frame) {
		b = c.space(len(frame))
	}
	at := len(b)
	b = append(b, frame...)
	binary.BigEndian.PutUint32(b[at+5:], to.id)
	c.out.buf = b
	c.out.size += len(frame)
	c.out.data += len(frame)
	if !c.dirty {
		c.markDirty()
	}
	h.credit(n)
	return true
}
