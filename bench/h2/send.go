package h2

// Body is the content of a stream: Count copies of Msg, of which the last is Last if that is set. Messages include
// their gRPC prefix. Each starts a new DATA frame.
type Body struct {
	Msg   []byte
	Count int
	Last  []byte
	Open  bool // keep the stream open after Count messages: Extend may add more
}

func (b *Body) next() []byte {
	if b.Count == 1 && b.Last != nil {
		return b.Last
	}
	return b.Msg
}

// roomWanted is the size of Out, in bytes, at which Pump stops so that Out is sent first.
const roomWanted = 128 << 10

// Send sets the body of a stream. What fits is appended to Out at once, after the headers.
func (s *Session) Send(st *Stream, body Body) {
	st.body = body
	if body.Count == 1 && s.sending.len() == 0 {
		s.sendFrame(st)
	}
	s.enqueue(st)
}

// Extend adds n messages to a stream whose body is Open. It returns false if the stream has ended.
func (s *Session) Extend(st *Stream, n int) bool {
	if st.gone {
		return false
	}
	st.body.Count += n
	s.enqueue(st)
	return true
}

// Pump appends to Out what the windows allow, one frame of each stream in turn. It reports whether it stopped only
// because Out is full.
func (s *Session) Pump() (more bool) {
	for s.sending.len() > 0 && s.window > 0 {
		if len(s.Out) >= roomWanted {
			return true
		}
		st := s.sending.pop()
		st.queued = false
		if st.gone {
			s.free = append(s.free, st)
			continue
		}
		s.sendFrame(st)
		s.enqueue(st)
	}
	return false
}

func (s *Session) enqueue(st *Stream) {
	if st.queued || st.gone || st.body.Count == 0 || st.window <= 0 {
		return
	}
	st.queued = true
	s.sending.push(st)
}

// sendFrame sends as much of st's current message as fits into one frame.
func (s *Session) sendFrame(st *Stream) {
	msg := st.body.next()
	n := min(len(msg)-st.off, s.peerFrame, int(st.window), int(s.window))
	if n <= 0 {
		return
	}
	whole := st.off+n == len(msg)
	last := whole && st.body.Count == 1 && !st.body.Open
	flags := byte(0)
	if last && s.cfg.Client {
		flags = flagEndStream
	}
	s.Out = appendFrameHeader(s.Out, n, frameData, flags, st.ID)
	s.Out = append(s.Out, msg[st.off:st.off+n]...)
	st.window -= int64(n)
	s.window -= int64(n)
	st.off += n
	if whole {
		st.off = 0
		st.body.Count--
	}
	if !last {
		return
	}
	if !s.cfg.Client {
		s.block(st.ID, s.trailers, flagEndStream)
	}
	s.endLocal(st)
}

// widen adds to the window of a stream, or of the connection if id is 0.
func (s *Session) widen(id uint32, n int64) {
	if id == 0 {
		s.window += n
		return
	}
	if st := s.streams[id]; st != nil {
		st.window += n
		s.enqueue(st)
	}
}
