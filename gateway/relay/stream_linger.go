package relay

import "time"

// A client that still sends when it has its answer would often lose the answer with a reset: many take one for a
// failure, also the reset with NO_ERROR that asks them to stop (RFC 9113 §8.1). It is heard out first, for a while.

const (
	lingerBytes = 64 << 10           // of its body that are read and dropped
	lingerReset = int64(time.Second) // after which it is asked to stop
)

// linger reports a stream that is answered whole, and waits for the end of its request.
func (s *Stream) linger() {
	s.report()
	s.forgetHead()
	s.phase, s.lingers, s.readLimit, s.deadline = answered, true, s.down.got+lingerBytes, 0
	s.sh.wheel.set(&s.timer, s.sh.now+lingerReset)
	s.noReplay()
	unsent := s.up.queue.len()
	s.account(-unsent)
	s.up.queue.drop(&s.sh.buffers)
	s.recount()
	s.down.credit(max(unsent-s.early, 0)) // it is dropped: the client may go on
}

// readUnread drops n bytes of a stream that lingers.
func (s *Stream) readUnread(h *half, n int, end bool) {
	switch {
	case end:
		h.gotEnd = true
		s.finish()
	case h.got > s.readLimit:
		s.stopReading()
	default:
		h.credit(n)
	}
}

// stopReading resets the stream, which asks the client to stop sending.
func (s *Stream) stopReading() {
	s.down.transport.cutShort(&s.down, errNone)
	s.finish()
}

// report has the stream reported when the turn ends.
func (s *Stream) report() {
	if !s.reporting {
		s.reporting = true
		s.sh.ended = append(s.sh.ended, s)
	}
}
