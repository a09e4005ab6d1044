package relay

// Limits hold a stream to what its Handler allows. What is 0 limits nothing.
type Limits struct {
	Bytes    int64 // of DATA, each way
	Messages int64 // of gRPC, each way
}

// Limit holds the stream to l from now on; what it has brought already counts. When more
// comes the Handler is asked (Exceeded). Call it once, before Forward.
func (s *Stream) Limit(l Limits) {
	if l.Bytes <= 0 && l.Messages <= 0 {
		return
	}
	m := &s.limits().in
	s.walk(m, s.up.queue.buf)
	s.limit.Limits = l
	if l.Bytes > 0 && m.bytes > l.Bytes || l.Messages > 0 && m.messages > l.Messages {
		gen := s.gen
		s.sh.later(func() { // when the Handler has decided
			if s.gen == gen && s.limit != nil {
				if f := s.exceeded(m); f != NoFailure {
					s.fail(f)
				}
			}
		})
	}
}

// limiter is what is known of a stream that has limits or a group.
type limiter struct {
	Limits
	group   *Group
	in, out meter // what the client sends, and the upstream
	slowed  bool  // it had to wait
}

// meter is one direction of a limited stream.
type meter struct {
	half     *half
	bytes    int64 // of the messages that have begun
	messages int64
	rest     int64 // of the message that is coming
	prefix   [5]byte
	got      int // of the prefix

	prepaid    int  // bytes that the group has paid for and that have not come
	waits      bool // in its group's list, for window to give back
	prev, then *meter
}

// limits returns the stream's own, made when they are asked for first.
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

// unlimit lets go of a stream's limits when it is over.
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

// count counts what came on a half. When that is more than the stream may bring it answers
// with why, and with how many of the bytes belong to messages before.
func (s *Stream) count(h *half, p []byte) (int, Failure) {
	l := s.limit
	m := l.meter(h)
	if l.group != nil {
		m.arrived(len(p))
	}
	switch {
	case l.Bytes <= 0 && l.Messages <= 0:
		return len(p), NoFailure
	case m.rest > 0 || m.got > 0 || len(p) < len(m.prefix) || int64(be32(p[1:])) != int64(len(p)-len(m.prefix)):
		return s.walk(m, p)
	}
	// p is one whole message.
	m.messages++
	if m.bytes += int64(len(p)); l.Bytes > 0 && m.bytes > l.Bytes || l.Messages > 0 && m.messages > l.Messages {
		if f := s.exceeded(m); f != NoFailure {
			return 0, f
		}
	}
	return len(p), NoFailure
}

// walk goes over the prefixes of messages (gRPC over HTTP/2, "Length-Prefixed-Message"): as a
// message begins it is known how long it will be.
func (s *Stream) walk(m *meter, p []byte) (int, Failure) {
	for at := 0; at < len(p); {
		if m.rest > 0 {
			n := min(m.rest, int64(len(p)-at))
			m.rest -= n
			at += int(n)
			continue
		}
		begins := at - m.got
		n := copy(m.prefix[m.got:], p[at:])
		m.got += n
		if at += n; m.got < len(m.prefix) {
			break
		}
		m.got, m.rest = 0, int64(be32(m.prefix[1:]))
		m.messages++
		m.bytes += int64(len(m.prefix)) + m.rest
		if f := s.exceeded(m); f != NoFailure {
			return max(begins, 0), f
		}
	}
	return len(p), NoFailure
}

// exceeded says that a stream is to end, as it has brought too much.
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

// endExceeded ends a stream that brought too much on a half: the client gets the messages
// before, of whose last ones n bytes lie at buf[pos:].
func (s *Stream) endExceeded(h *half, buf []byte, pos, n int, f Failure) {
	if h == &s.down {
		s.fail(f)
		return
	}
	if n > 0 {
		s.result.BytesOut += int64(n)
		s.move(h, &s.down, buf, pos, n, false)
	}
	if s.phase == forwarded {
		s.failWith(f)
	}
}
