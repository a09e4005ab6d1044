package relay

import "time"

// If a client still sends when its response is complete, a reset would often discard the response: many clients take
// it for a failure, even the reset with NO_ERROR that asks them to stop (RFC 9113 §8.1). Its request is therefore read
// and dropped for a while.

const (
	lingerBytes = 64 << 10           // bytes of its body that are read and dropped
	lingerReset = int64(time.Second) // time after which it is asked to stop
)

// linger reports a stream with a complete response, and waits for the end of its request.
func (s *Stream) linger() {
	s.report()
	s.forgetHead()
	s.phase, s.lingers, s.unread, s.deadline = answered, true, lingerBytes, 0
	s.sh.wheel.set(&s.timer, s.sh.now+lingerReset)
	s.noReplay()
	unsent := s.up.queue.len()
	s.account(-unsent)
	s.up.dropQueue()
	s.recount()
	s.down.credit(max(unsent-int(s.early), 0)) // dropped, so the client may continue
}

// readUnread drops n bytes of a lingering stream.
func (s *Stream) readUnread(h *half, n int, end bool) {
	switch {
	case end:
		h.gotEnd = true
		s.finish()
	case n > int(s.unread):
		s.stopReading()
	default:
		s.unread -= int32(n)
		h.credit(n)
	}
}

// stopReading resets the stream, which asks the client to stop sending.
func (s *Stream) stopReading() {
	s.down.transport.cutShort(&s.down, errNone)
	s.finish()
}

// report schedules the report of the stream for the end of the turn.
func (s *Stream) report() {
	if !s.reporting {
		s.reporting = true
		s.sh.ended = append(s.sh.ended, s)
	}
}
