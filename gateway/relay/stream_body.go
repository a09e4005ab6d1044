package relay

// accept takes n received bytes of a DATA frame from the half's window; extra of them are padding. It returns nil if
// the frame ended the stream instead.
func (h *half) accept(n, extra int) *half {
	s := h.stream
	if h.gotEnd {
		s.broken(h, errStreamClosed)
		return nil
	}
	if h == &s.up && !s.started {
		s.broken(h, errProtocol)
		return nil
	}
	if h.recvWin -= int32(n); h.recvWin < 0 {
		s.broken(h, errFlowControl)
		return nil
	}
	h.got += int64(n - extra)
	if h.length >= 0 && h.got > h.length {
		s.broken(h, errProtocol)
		return nil
	}
	h.credit(extra)
	return h
}

// credit replenishes n processed bytes of this half for its peer.
func (h *half) credit(n int) {
	h.uncredited += int32(n)
	window := h.stream.sh.relay.cfg.HTTP2.StreamWindow
	if h.transport != nil && !h.gotEnd && int(h.uncredited) >= window/2 && !h.paced() {
		h.grant(int(h.uncredited))
	}
}

// grant replenishes n bytes.
func (h *half) grant(n int) {
	h.recvWin += int32(n)
	h.transport.replenish(h, n)
	h.uncredited -= int32(n)
}

// receive processes n bytes of body at buf[pos:] from half h.
func (s *Stream) receive(h *half, buf []byte, pos, n int, end bool) {
	if s.lingers {
		s.readUnread(h, n, end)
		return
	}
	if end {
		h.gotEnd = true
		if !h.lengthFits() && h == &s.down && s.started && !s.grpc && h.got < h.length {
			// curl ends its request early when it sees an error; the upstream must not consider the request complete
			return
		}
		if !h.lengthFits() {
			s.broken(h, errProtocol)
			return
		}
	}
	if s.limit != nil {
		if n, f := s.count(h, buf[pos:pos+n]); f != NoFailure {
			s.endExceeded(h, buf, pos, n, f)
			return
		}
	}
	s.moved(n)
	if h == &s.up {
		s.receiveResponse(buf, pos, n, end)
		return
	}
	s.result.BytesIn += int64(n)
	if s.whole && n > 0 {
		s.fail(MessageFollowed)
	}
	if s.phase == reading && s.readInPlace(buf[pos:pos+n], end) {
		return
	}
	switch s.phase {
	case forwarded:
		s.move(h, &s.up, buf, pos, n, end)
	case answered, over:
		h.credit(n)
	default:
		s.hold(buf[pos:pos+n], end)
		if s.phase == reading {
			s.readHeld()
		}
	}
}

// receiveResponse processes n bytes of a response's body at buf[pos:].
func (s *Stream) receiveResponse(buf []byte, pos, n int, end bool) {
	if s.tap != nil && !s.callBody(buf[pos:pos+n]) {
		s.fail(Panicked)
		return
	}
	if s.grpc && s.limit != nil && s.limit.out.inPrefix() {
		n = s.split(n)
	}
	s.result.BytesOut += int64(n)
	s.move(&s.up, &s.down, buf, pos, n, end && !s.grpc)
	switch {
	case !end || s.phase != forwarded: // move may have ended it for lack of memory
	case s.grpc: // its end would be trailers
		s.up.state.guard.subtract(perAnswer)
		s.explain(UpstreamNotGRPC)
	default:
		s.responseEnds()
	}
}

// move forwards n bytes: as many as the windows allow without a copy, the rest into the queue of their destination.
func (s *Stream) move(from, to *half, buf []byte, pos, n int, end bool) {
	t, sent := to.transport, 0
	if to.queue.len() == 0 {
		if sent = max(min(n, t.room(to)), 0); sent > 0 || n == 0 && end {
			to.state.guard.sentData(sent, sent < n)
			t.writeData(to, buf, pos, sent, end && sent == n)
			from.credit(sent)
		}
	}
	keep := to == &s.up && s.replay
	if cfg := &s.sh.relay.cfg; keep && (len(to.queue.bytes())+n > cfg.Forwarding.MaxReplay ||
		s.sh.buffered > cfg.Memory.MaxBuffered/2) {
		s.noReplay()
		keep = false
	}
	if keep {
		to.enqueue(buf[pos:pos+n], true)
		to.dequeue(sent, true)
		s.account(sent)
		if !s.recount() {
			s.noReplay()
		}
	} else if sent < n {
		to.enqueue(buf[pos+sent:pos+n], false)
	}
	to.queueEnd = to.queueEnd || end
	if sent < n {
		t.wait(to)
		s.buffered(n - sent)
	}
}

// noReplay gives up the ability to restart the request, and drops what was sent.
func (s *Stream) noReplay() {
	if !s.replay {
		return
	}
	s.replay = false
	s.account(-s.up.queue.past())
	if s.up.queue.len() == 0 {
		s.up.dropQueue()
		s.recount()
	}
}

// account adds n bytes, which may be negative, to the count of the stream's queues.
func (s *Stream) account(n int) {
	if n == 0 {
		return
	}
	s.held += int32(n)
	s.sh.buffered += int64(n)
	if s.group != nil {
		s.group.shards[s.sh.index].held += int64(n)
	}
	if s.down.transport != nil {
		s.down.state.held += n
	}
}

// buffered accounts for n more held bytes, and ends the stream if that exceeds a limit.
func (s *Stream) buffered(n int) {
	if f := s.holds(n); f != NoFailure {
		s.fail(f)
	}
}

// holds accounts for n more held bytes, and returns the failure if that exceeds a limit.
func (s *Stream) holds(n int) Failure {
	s.account(n)
	cfg := &s.sh.relay.cfg
	if s.sh.buffered > cfg.Memory.MaxBuffered || s.down.transport != nil && s.client.overBuffer() ||
		s.groupOverBuffer() {
		return MemoryExceeded
	}
	if !s.recount() {
		return AccountExceeded
	}
	return NoFailure
}

// hold keeps bytes of the request until its destination is decided.
func (s *Stream) hold(p []byte, end bool) {
	s.up.enqueue(p, true)
	s.up.queueEnd = s.up.queueEnd || end
	s.buffered(len(p))
}

// pump sends the queue of a half as far as its windows allow, and what follows it.
func (s *Stream) pump(h *half) {
	t := h.transport
	if t == nil || s.phase < forwarded || s.phase == over {
		return
	}
	for h.queue.len() > 0 {
		n := min(h.queue.len(), t.room(h), maxFrame)
		if n <= 0 {
			t.wait(h)
			return
		}
		end := h.queueEnd && n == h.queue.len()
		h.state.guard.sentData(n, n < min(h.queue.len(), maxFrame))
		t.copyData(h, h.queue.buf[h.queue.off:h.queue.off+n], end)
		keep := h == &s.up && s.replay
		h.dequeue(n, keep)
		if !keep {
			s.account(-n)
		}
		s.creditSource(h, n)
	}
	s.recount()
	if h.queue.isListed() {
		t.unwait(h)
	}
	switch {
	case h.sentEnd:
	case h.queueEnd:
		t.copyData(h, nil, true)
	case h.queue == nil || h.queue.trailers == nil:
	case h == &s.down:
		s.writeBlock(h.queue.trailers, true)
	default:
		s.writeFollow()
	}
	s.checkDone()
}

// creditSource replenishes n bytes that left the queue of h for their sender.
func (s *Stream) creditSource(h *half, n int) {
	if h == &s.down {
		s.up.credit(n)
		return
	}
	early := min(n, int(s.early))
	s.early -= int32(early)
	s.down.credit(n - early)
}

// resumeStreams continues the streams that wait for the connection, in turn.
func (c *conn) resumeStreams() {
	for h := c.waiting.first; h != nil && c.sendWin > 0 && !c.full(); h = c.waiting.first {
		c.waiting.remove(h)
		h.stream.pump(h)
	}
}

// readInPlace delivers the first message if p contains all of it and nothing came before. It returns true if it has
// handled p.
func (s *Stream) readInPlace(p []byte, end bool) bool {
	if s.up.queue.len() > 0 {
		return false
	}
	n, ok := s.messageLen(p)
	if !ok {
		return s.phase == over || s.phase == answered
	}
	if len(p) < 5+n {
		return false
	}
	s.deliver(p, n)
	return false
}

// readAhead is the number of bytes of a long first message that the client may send in advance.
const readAhead = 256 << 10

// readHeld delivers the first message once it is complete, and otherwise lets the client continue.
func (s *Stream) readHeld() {
	p := s.up.queue.bytes()
	n, ok := s.messageLen(p)
	switch {
	case s.phase != reading:
	case ok && len(p) >= 5+n:
		s.deliver(p, n)
	case s.down.gotEnd && len(p) == 0:
		s.miss()
	case s.down.gotEnd:
		s.fail(MessageMalformed)
	case ok:
		// A message longer than the window: replenish what was received, and some in advance because all of it is kept
		// anyway, but no more than the message needs.
		if more := min(len(p)+readAhead, 5+n) - int(s.early); more > 0 {
			s.early += int32(more)
			s.down.credit(more)
		}
	}
}

// messageLen parses the prefix of the first message. It ends streams whose message cannot be accepted.
func (s *Stream) messageLen(p []byte) (int, bool) {
	if len(p) < 5 {
		return 0, false
	}
	if p[0] > 1 {
		s.fail(MessageMalformed)
		return 0, false
	}
	n := be32(p[1:])
	if n > uint32(s.sh.relay.cfg.HTTP2.MaxFirstMessage) {
		s.fail(MessageTooLarge)
		return 0, false
	}
	return int(n), true
}

// deliver passes the first message to the Handler: n bytes of p, after the prefix.
func (s *Stream) deliver(p []byte, n int) {
	if s.alone && len(p) > 5+n {
		s.fail(MessageFollowed)
		return
	}
	s.whole = s.alone
	s.message(Message{Data: p[5 : 5+n], Compressed: p[0] == 1})
}

// miss notifies the Handler that there is no first message.
func (s *Stream) miss() { s.message(Message{Missing: true}) }

func (s *Stream) message(m Message) {
	s.phase = deciding
	s.setTimer()
	s.callMessage(m)
}
