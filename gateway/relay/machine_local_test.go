package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
)

// localTalk is a call of the machine that begins in the process. Its caller sends and receives whole messages at any
// time, and never blocks.
type localTalk struct {
	*ClientStream
	sent, got int // of the call's messages
	begun     bool
	head      []byte // the rest of the message being sent
	data      []byte
}

// newLocal makes up a call as newCall does.
func (m *machine) newLocal() *call {
	k := m.newCall()
	k.local, k.down = &localTalk{}, &side{call: k}
	k.reqHead = plain(k.reqHead)
	// in the order of clientEnd.head
	k.reqHead = slices.Concat(k.reqHead[:4:4], k.reqHead[6:], k.reqHead[4:6])
	return k
}

func (m *machine) lengths(n int) []int {
	var all []int
	for range m.rng.IntN(n + 1) {
		all = append(all, m.size())
	}
	return all
}

func framed(lengths []int) (n int) {
	for _, l := range lengths {
		n += prefixLen + l
	}
	return n
}

// frame writes the prefixes of messages into a body, as far as it goes.
func frame(body []byte, lengths []int) {
	for _, n := range lengths {
		copy(body, append([]byte{0}, appendUint32(nil, uint32(n))...))
		body = body[min(len(body), prefixLen+n):]
	}
}

func (k *call) openLocal() {
	q := Request{Path: "/x.Y/Z", Authority: "a.example"}
	for _, f := range k.reqHead[4 : len(k.reqHead)-2] {
		q.Header = append(q.Header, Field{f.Name, f.Value})
	}
	var err error
	if k.local.ClientStream, err = k.m.sh.relay.Open(context.Background(), q); err != nil {
		k.m.t.Fatal(err)
	}
	k.down.sentHead = true
}

// send sends as much of one message as the window permits.
func (l *localTalk) send(k *call) {
	s := k.down
	if s.sentEnd {
		return
	}
	switch {
	case l.begun:
	case l.sent < len(k.requests):
		n := k.requests[l.sent]
		p := k.bytes(true, s.sent, s.sent+prefixLen+n)
		l.head, l.data, l.begun = bytes.Clone(p[:prefixLen]), bytes.Clone(p[prefixLen:]), true
	default:
		s.sentEnd = true
		l.CloseSend()
		return
	}
	last := l.sent == len(k.requests)-1 && k.num%2 == 0
	before := len(l.head) + len(l.data)
	var err error
	if l.head, l.data, err = l.end.sendSome(l.head, l.data, last); err != nil {
		s.sentEnd = true // the call is over
		return
	}
	l.end.sh.post(&l.end.event)
	left := len(l.head) + len(l.data)
	s.sent += before - left
	if left == 0 {
		l.begun = false
		l.sent++
		s.sentEnd = last
	}
}

// take receives a message, if there is one.
func (l *localTalk) take(k *call) bool {
	s, t := k.down, k.m.t
	if s.gotEnd {
		return false
	}
	m, tell, err := l.end.take(nil)
	if tell {
		l.end.sh.post(&l.end.event)
	}
	switch {
	case errors.Is(err, errNotYet):
		return false
	case err != nil:
		l.ended(k, err)
		return false
	}
	lengths := k.responses
	from := s.got + prefixLen
	if k.mode == "reply" {
		lengths, from = []int{k.respLen}, 0
	}
	if l.got >= len(lengths) || len(m.Data) != lengths[l.got] || m.Compressed ||
		!bytes.Equal(m.Data, k.bytes(false, from, from+len(m.Data))) {
		t.Fatalf("call %d, in the process: message %d of %d bytes differs", k.num, l.got, len(m.Data))
	}
	l.got++
	s.got += prefixLen + len(m.Data)
	return true
}

func (l *localTalk) ended(k *call, err error) {
	s, t := k.down, k.m.t
	st := l.Status()
	s.gotEnd, s.sentEnd, s.status = true, true, strconv.Itoa(int(st.Code))
	switch {
	case k.m.lenient && (st.Code == codeResourceExhausted || st.Code == codeUnavailable): // as in over
		k.disturbed = true
	case !errors.Is(err, io.EOF) && !k.disturbed:
		t.Fatalf("call %d, in the process: %v, %+v", k.num, err, st)
	case st.Code == 7 && (st.Message != "no é%" || !bytes.Equal(st.Details, []byte{1, 2, 3})):
		t.Fatalf("call %d: %+v", k.num, st)
	case st.Code == 0 && k.forwarded():
		equalFields(t.Fatalf, k, asHeaders(l.Trailer()), plain(slices.DeleteFunc(slices.Clone(k.trailers), ofStatus)))
	}
}

// takeAll lets the callers of all calls in the process receive their messages.
func (m *machine) takeAll() {
	for _, k := range m.calls {
		for k.local != nil && k.local.take(k) {
		}
	}
}

// balanceLocals checks the accounting of the calls that began in the process, and returns the bytes held for them.
func (m *machine) balanceLocals() (held int64) {
	count := 0
	m.sh.locals.each(func(c *clientEnd) {
		count++
		s := c.half.stream
		held += int64(s.down.queue.len() + s.up.queue.len() + int(s.headSize) + int(s.inside))
		if s.replay {
			held += int64(s.up.queue.past())
		}
		want := streamCost + int(s.headSize) + int(s.inside) + s.down.queue.size() + s.up.queue.size()
		if (s.charged != 0 || s.phase == forwarded) && int(s.charged) != want && !m.lenient {
			m.t.Fatalf("%d bytes are charged, not %d", s.charged, want)
		}
		h := &s.down
		sum := int(h.recvWin+h.uncredited) + s.up.queue.len() - int(s.early)
		if sum != m.sh.relay.cfg.HTTP2.StreamWindow && !h.gotEnd && s.phase < answered {
			m.t.Fatalf("in the process: window %d + owed %d + waiting = %d", h.recvWin, h.uncredited, sum)
		}
		if h.queue.len() > 0 && h.sendWin > 0 && s.phase >= forwarded && !c.pumps {
			m.t.Fatalf("in the process: %d bytes wait for nothing", h.queue.len())
		}
		if !c.discards && h.sendWin+c.in.len()+c.taken != m.sh.relay.cfg.HTTP2.StreamWindow+c.early {
			m.t.Fatalf("in the process: window %d + waiting %d + taken %d is not that and %d in advance",
				h.sendWin, c.in.len(), c.taken, c.early)
		}
		inside := cap(c.in.buf)
		if up, ok := s.up.transport.(*serverEnd); ok {
			inside += cap(up.in.buf)
		}
		if int(s.inside) != inside {
			m.t.Fatalf("in the process: buffers of %d count as %d", inside, s.inside)
		}
	})
	if count != m.sh.locals.count {
		m.t.Fatalf("%d calls are in the process, not %d", count, m.sh.locals.count)
	}
	return held
}
