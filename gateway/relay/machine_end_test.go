package relay

import (
	"cmp"
	"maps"
	"slices"
)

func (e *endpoint) sorted() []*side {
	list := slices.Collect(maps.Values(e.sides))
	slices.SortFunc(list, func(a, b *side) int { return cmp.Compare(a.id, b.id) })
	return list
}

// sendRequest sends the next piece of the client's request.
func (k *call) sendRequest() {
	if k.local != nil {
		k.local.send(k)
		return
	}
	s := k.down
	if s.sentEnd || s.sentReset || s.gotReset {
		return
	}
	if n := k.next(s, k.reqLen); n > 0 {
		s.sent += n
		end := s.sent == k.reqLen && k.m.rng.IntN(3) > 0
		s.e.data(s, k.bytes(true, s.sent-n, s.sent), end)
		s.sentEnd = end
		return
	}
	if s.sent < k.reqLen {
		if k.m.rng.IntN(20) == 0 {
			s.e.data(s, nil, false) // permitted, without effect
		}
		return
	}
	s.sentEnd = true
	if k.m.rng.IntN(4) == 0 {
		s.e.headers(s.id, fields("x-trailer", "dropped"), true)
	} else {
		s.e.data(s, nil, true)
	}
}

// next returns the number of bytes that s sends now of a body of size total.
func (k *call) next(s *side, total int) int {
	n := min(total-s.sent, s.send, s.e.sendConn, maxFrame)
	if n > 1 && k.m.rng.IntN(3) == 0 {
		n = 1 + k.m.rng.IntN(n)
	}
	return n
}

// sendResponse sends the next piece of the backend's response.
func (k *call) sendResponse() {
	if k.served != nil {
		k.served.step(k)
		return
	}
	if len(k.ups) == 0 {
		return
	}
	s := k.ups[len(k.ups)-1]
	if !s.live() {
		return
	}
	switch n := k.next(s, k.respLen); {
	case !s.sentHead && k.m.rng.IntN(6) == 0:
		s.e.headers(s.id, fields(":status", "103", "x-early", "1"), false)
	case !s.sentHead && k.repeatable() && k.m.rng.IntN(6) == 0:
		k.disturbed = k.disturbed || !k.startsAgain()
		s.sentHead, s.sentEnd = true, true
		s.e.headers(s.id, append(k.respHead[:2:2], fields("grpc-status", "14")...), true)
	case !s.sentHead && k.respLen == 0 && k.trailers != nil && k.m.rng.IntN(2) == 0:
		s.sentHead, s.sentEnd = true, true
		s.e.headers(s.id, append(k.respHead[:2:2], k.trailers...), true)
	case !s.sentHead:
		s.sentHead = true
		s.e.headers(s.id, k.respHead, false)
	case n > 0:
		s.sent += n
		end := s.sent == k.respLen && k.trailers == nil
		s.e.data(s, k.bytes(false, s.sent-n, s.sent), end)
		s.sentEnd = end
	case s.sent < k.respLen:
	case k.trailers != nil:
		s.sentEnd = true
		s.e.headers(s.id, k.trailers, true)
	default:
		s.sentEnd = true
		s.e.data(s, nil, true)
	}
	if s.sentEnd && !s.gotEnd && !s.gotReset && k.m.rng.IntN(2) == 0 {
		s.e.reset(s, errNone) // as a server does that has not read the whole request
	}
}

// over reports whether the call has ended for its client and for the Handler.
func (k *call) over() bool {
	if e := k.down.e; e != nil && (e.gone || e.c.closed && !e.left) {
		k.disturbed = true
		return k.done > 0 || !k.asked
	}
	if k.m.lenient && k.down.gotReset && k.down.code == errRefusedStream {
		k.disturbed = true // refused at once, or not kept for another backend
		return k.done > 0 || !k.asked
	}
	if k.local != nil {
		return k.down.gotEnd && (k.done > 0 || !k.asked)
	}
	return k.done > 0 && (k.down.gotEnd || k.down.gotReset || k.down.sentReset)
}

// finish lets all calls run to their end.
func (m *machine) finish() {
	for range 3000 {
		m.serveGroup()
		ends := slices.Concat(m.clients, m.upstreams)
		for _, e := range ends {
			if e.gone {
				continue
			}
			m.give(e, plenty-e.link.room)
			if e.windows[len(e.windows)-1] < initialWindow {
				e.window(initialWindow)
			}
			if e.unread > 0 {
				e.update(nil, e.unread)
			}
			for _, s := range e.sorted() {
				if s.unread > 0 && !s.gotEnd {
					e.update(s, s.unread)
				}
			}
			for m.takes(e) {
				m.deliver(e, readBuffer)
			}
		}
		left := 0
		for _, k := range m.calls {
			if len(k.parked) > 0 {
				k.resume()
			}
			k.sendRequest()
			k.sendResponse()
			gone := k.down.e != nil && (k.down.e.gone || k.down.e.c.closed)
			if !k.over() || !gone && !k.down.sentEnd && !k.down.gotReset && !k.down.sentReset {
				left++
			}
		}
		m.settleDials()
		m.collect()
		m.takeAll()
		if left == 0 {
			for _, e := range slices.Concat(m.clients, m.upstreams) {
				for !e.gone && m.takes(e) {
					m.deliver(e, readBuffer)
				}
			}
			m.collect()
			return
		}
	}
	for _, k := range m.calls {
		if !k.over() {
			m.t.Errorf("call %d (%s) does not end: done %d, down %+v", k.num, k.mode, k.done, k.down)
			for _, s := range k.ups {
				m.t.Errorf("  up %+v live %v", s, s.live())
			}
		}
	}
	m.t.FailNow()
}

// doubted reports whether the relay may have treated a refusal as the failure of a call that ran.
func (k *call) doubted() bool {
	return slices.ContainsFunc(k.ups, func(s *side) bool {
		if s.id > s.e.lastGood && s.late {
			return true
		}
		return s.sentReset && s.sentCode == errRefusedStream && (s.late || k.result.Ended > refusedWithin)
	})
}

// verify checks how the calls ended, and that the relay holds nothing of them.
func (m *machine) verify() {
	t := m.t
	for _, k := range m.calls {
		if k.disturbed {
			if k.down.gotEnd && k.down.status == "0" && k.forwarded() && k.down.got != k.respLen {
				t.Errorf("call %d: OK after %d of %d bytes", k.num, k.down.got, k.respLen)
			}
			continue
		}
		want := k.respLen
		switch k.mode {
		case "refuse":
			want = 0
		case "reply":
			want += 5
		}
		status := k.status()
		if k.down.status == "14" && k.doubted() {
			want, status = 0, "14" // no response; the other checks apply
		}
		if d := k.down; !d.gotEnd || d.got != want || d.status != status {
			t.Errorf("call %d (%s): end %v, %d of %d bytes, status %q, not %q, reset %v %d, %v", k.num, k.mode,
				d.gotEnd, d.got, want, d.status, status, d.gotReset, d.code, k.result)
		}
		if !k.forwarded() || t.Failed() {
			continue
		}
		if k.inProcess() {
			if got := k.served.got; got > len(k.requests) || k.served.whole && got < len(k.requests) {
				t.Errorf("call %d: the server got %d of %d messages", k.num, got, len(k.requests))
			}
			continue
		}
		s := k.ups[len(k.ups)-1]
		if s.gotEnd && s.got != k.reqLen {
			t.Errorf("call %d: the backend got %d of %d bytes, and the end", k.num, s.got, k.reqLen)
		}
		if !s.gotEnd && !s.gotReset && !s.sentReset && !s.e.c.closed { // the end of a connection ends its calls
			t.Errorf("call %d: the request does not end at the backend", k.num)
		}
	}
	m.sh.enter()
	defer m.sh.leave()
	if m.sh.locals.count != 0 || m.sh.locals.first != nil {
		t.Errorf("%d calls are still in the process", m.sh.locals.count)
	}
	if m.sh.buffered != 0 {
		t.Errorf("%d bytes are still held", m.sh.buffered)
	}
	if g := m.group; g != nil && (g.shards[0].held != 0 || g.shards[0].first != nil || g.shards[0].last != nil) {
		t.Errorf("%d bytes are still held by a group, or somebody waits", g.shards[0].held)
	}
	if p := m.sh.poolOf(m.up); p.queued != 0 || p.first != nil || p.last != nil {
		t.Errorf("%d streams wait for ever", p.queued)
	}
	for _, e := range slices.Concat(m.clients, m.upstreams) {
		c := e.c
		if e.gone || c.closed || c.ending {
			continue
		}
		if len(e.pings)+len(e.settings) != 0 || c.pingSent != 0 {
			t.Errorf("client %v: %d PING and %d SETTINGS without an answer, and one of the relay: %v", e.client,
				len(e.pings),
				len(e.settings), c.pingSent != 0)
		}
		if c.streams.count != 0 || c.waiting.first != nil || c.waiting.last != nil || c.out.size != 0 ||
			len(c.partial) != 0 || c.body.half != nil {
			t.Errorf("client %v: %d streams, waiting %v, %d bytes", e.client, c.streams.count, c.waiting.first != nil,
				c.out.size)
		}
		if c.recvWin+c.uncredited != m.sh.relay.cfg.HTTP2.ConnWindow || c.recvWin != e.sendConn ||
			c.sendWin != e.recvConn {
			t.Errorf("client %v: windows out of step: receive %d and %d, send %d and %d", e.client, c.recvWin,
				e.sendConn,
				c.sendWin, e.recvConn)
		}
	}
}

// balance checks the accounting: bytes taken from a window are being read, held, or about to be credited, and all held
// bytes are counted.
func (m *machine) balance() {
	m.sh.enter()
	defer m.sh.leave()
	held := m.balanceLocals()
	for c := range m.sh.conns {
		if h := c.waiting.first; h != nil && h.sendWin > 0 && c.sendWin > 0 && !c.blocked && c.out.size == 0 {
			m.t.Fatalf("client %v: a stream waits for a connection that takes %d bytes", c.pool == nil, c.sendWin)
		}
		c.streams.each(func(h *half) {
			s := h.stream
			waits := s.down.queue.len()
			if h == &s.down {
				waits = s.up.queue.len() - int(s.early)
				held += int64(s.down.queue.len() + s.up.queue.len() + int(s.headSize) + int(s.inside))
				if s.replay {
					held += int64(s.up.queue.past())
				}
			}
			if s.lingers && s.requestHead != nil {
				m.t.Fatal("a stream that waits for the end of its request holds headers, and nobody is charged for " +
					"them")
			}
			if want := int64(streamCost + int(s.headSize) + int(s.inside) + s.down.queue.size() +
				s.up.queue.size()); s.grpc && (s.charged != 0 || s.phase == forwarded) &&
				int64(s.charged) != want && !m.lenient {
				m.t.Fatalf("%d bytes are charged, not %d", s.charged, want)
			}
			if c.body.half == h {
				waits += c.body.left
			}
			if l := s.limit; l != nil && h == &s.up {
				waits += int(l.out.keeps)
			}
			if sum := int(h.recvWin+h.uncredited) + waits; sum != m.sh.relay.cfg.HTTP2.StreamWindow && !h.gotEnd &&
				s.phase < answered {
				m.t.Fatalf("client %v: window %d + owed %d + waiting %d = %d", c.pool == nil, h.recvWin, h.uncredited,
					waits, sum)
			}
			if l := s.limit; l != nil && l.group != nil && s.phase == forwarded && !h.gotEnd {
				if late := int(h.uncredited) >= m.sh.relay.cfg.HTTP2.StreamWindow/2; late && !l.meter(h).waits {
					m.t.Fatalf("client %v: nobody will give %d bytes of window back", c.pool == nil, h.uncredited)
				}
			}
			if q := h.queue; q != nil && q.buf == nil && q.trailers == nil && !q.listed {
				m.t.Fatalf("client %v: a half holds an empty queue", c.pool == nil)
			}
			if blocked := h.queue.len() > 0 && h.sendWin > 0 && s.phase >= forwarded; blocked && !h.queue.isListed() {
				m.t.Fatalf("client %v: %d bytes wait for nothing", c.pool == nil, h.queue.len())
			}
		})
	}
	if held != m.sh.buffered {
		m.t.Fatalf("%d bytes are held, not %d", held, m.sh.buffered)
	}
}
