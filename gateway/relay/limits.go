package relay

// Limits limits a stream. A field of 0 means no limit.
type Limits struct {
	Bytes    int64 // of gRPC in each direction
	Messages int64 // of gRPC, each way
}

// Limit sets the stream's limits; bytes and messages received so far count. When a limit is exceeded, Handler.Exceeded
// is called. Limit may be called once, before Forward.
func (s *Stream) Limit(l Limits) {
	if l.Bytes <= 0 && l.Messages <= 0 {
		return
	}
	m := &s.limits().in
	s.walk(m, s.up.queue.bytes())
	s.limit.Limits = l
	if l.Bytes > 0 && m.bytes > l.Bytes || l.Messages > 0 && m.messages > l.Messages {
		gen := s.gen
		s.sh.later(func() { // after the Handler's decision
			if s.gen == gen && s.limit != nil {
				if f := s.exceeded(m); f != NoFailure {
					s.fail(f)
				}
			}
		})
	}
}

// limiter is the state of a stream with limits or a group.
type limiter struct {
	Limits
	group   *Group
	in, out meter // from the client, and from the upstream
	slowed  bool  // the stream had to wait
}

// meter is one direction of a limited stream.
type meter struct {
	half     *half
	bytes    int64 // of started messages
	messages int64
	rest     uint32 // of the current message
	prefix   [5]byte
	got      uint8   // of the prefix
	kept     [4]byte // the start of a prefix, not yet forwarded
	keeps    uint8   // bytes of kept

	waits      bool // in its group's list, with window to replenish
	prepaid    int  // bytes charged to the group in advance and not yet received
	prev, then *meter
}

// limits returns the stream's limiter, which it creates on first use.
func (s *Stream) limits() *limiter {
	if s.limit == nil {
		if n := len(s.sh.limiters); n > 0 {
			s.limit = s.sh.limiters[n-1]
			s.sh.limiters = s.sh.limiters[:n-1]
		} else {
			s.limit = new(limiter)
		}
		s.limit.in.half, s.limit.out.half = &s.down, &s.up
	}
	return s.limit
}

// unlimit releases the limiter of an ended stream.
func (s *Stream) unlimit() {
	l := s.limit
	if l == nil {
		return
	}
	l.in.leave()
	l.out.leave()
	s.limit = nil
	if len(s.sh.limiters) < keepStreams {
		*l = limiter{}
		s.sh.limiters = append(s.sh.limiters, l)
	}
}

func (l *limiter) meter(h *half) *meter {
	if h == l.in.half {
		return &l.in
	}
	return &l.out
}

// count counts the bytes received on a half. If they exceed a limit, it returns the failure, and the number of bytes
// that belong to earlier messages.
func (s *Stream) count(h *half, p []byte) (int, Failure) {
	l := s.limit
	m := l.meter(h)
	if l.group != nil {
		m.arrived(len(p))
	}
	switch {
	case l.Bytes <= 0 && l.Messages <= 0:
		m.got = 0 // of a message that exceeded a limit in shadow mode
		return len(p), NoFailure
	case m.rest > 0 || m.got > 0 || len(p) < len(m.prefix) || int64(be32(p[1:])) != int64(len(p)-len(m.prefix)):
		return s.walk(m, p)
	}
	// p is one complete message.
	m.messages++
	if m.bytes += int64(len(p)); l.Bytes > 0 && m.bytes > l.Bytes || l.Messages > 0 && m.messages > l.Messages {
		if f := s.exceeded(m); f != NoFailure {
			return 0, f
		}
	}
	return len(p), NoFailure
}

// walk parses the prefixes of messages (gRPC over HTTP/2, "Length-Prefixed-Message"), so that the length of a message
// is known at its start.
func (s *Stream) walk(m *meter, p []byte) (int, Failure) {
	for at := 0; at < len(p); {
		if m.rest > 0 {
			n := int(min(int64(m.rest), int64(len(p)-at)))
			m.rest -= uint32(n)
			at += n
			continue
		}
		begins := at - int(m.got)
		n := copy(m.prefix[m.got:], p[at:])
		m.got += uint8(n)
		if at += n; int(m.got) < len(m.prefix) {
			break
		}
		m.got, m.rest = 0, be32(m.prefix[1:])
		m.messages++
		m.bytes += int64(len(m.prefix)) + int64(m.rest)
		if f := s.exceeded(m); f != NoFailure {
			return max(begins, 0), f
		}
	}
	return len(p), NoFailure
}

// exceeded returns the failure of a stream that has exceeded a limit, if it must end.
func (s *Stream) exceeded(m *meter) Failure {
	l := s.limit
	switch {
	case !s.announced || s.phase == answered || s.phase == over:
	case l.Bytes > 0 && m.bytes > l.Bytes:
		if f := s.callExceeded(TooManyBytes); f != NoFailure {
			return f
		}
		l.Bytes = 0
	case l.Messages > 0 && m.messages > l.Messages:
		if f := s.callExceeded(TooManyMessages); f != NoFailure {
			return f
		}
		l.Messages = 0
	}
	return NoFailure
}

// inPrefix reports whether the bytes received so far end inside a message's prefix, or part of a prefix is still kept.
func (m *meter) inPrefix() bool { return m.got > 0 || m.keeps > 0 }

// split returns how many of n bytes from the upstream are forwarded now, after those that were kept. The start of a
// message's prefix is kept until the prefix is complete: if the message exceeds a limit, it must not have begun for
// the client, which would find a truncated message instead of the status.
func (s *Stream) split(n int) int {
	m := &s.limit.out
	if int(m.got) > n && m.keeps > 0 {
		n = 0 // the prefix goes on
	} else {
		s.sendKept()
		n -= int(m.got)
	}
	m.keeps = uint8(copy(m.kept[:], m.prefix[:m.got]))
	return n
}

// sendKept forwards the kept start of a prefix.
func (s *Stream) sendKept() {
	if s.limit == nil || s.limit.out.keeps == 0 {
		return
	}
	m := &s.limit.out
	n := int(m.keeps)
	m.keeps = 0
	s.result.BytesOut += int64(n)
	s.down.enqueue(m.kept[:n], false)
	s.account(n)
	s.recount()
	s.pump(&s.down)
}

// endExceeded ends a stream that exceeded a limit on a half. The client receives the earlier messages, of whose last
// ones n bytes are at buf[pos:].
func (s *Stream) endExceeded(h *half, buf []byte, pos, n int, f Failure) {
	if h == &s.down {
		s.fail(f)
		return
	}
	if n > 0 {
		s.sendKept()
		s.result.BytesOut += int64(n)
		s.move(h, &s.down, buf, pos, n, false)
	}
	if s.phase == forwarded {
		s.failWith(f)
	}
}
