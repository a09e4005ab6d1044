package relay

import (
	"io"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// mischief causes one of the rare events.
func (m *machine) mischief() {
	e := m.anyEnd()
	if e == nil {
		return
	}
	switch m.rng.IntN(10) {
	case 0, 1:
		if len(e.windows) < 40 {
			e.window([]int{0, 1, 100, 5000, 65535, 100_000}[m.rng.IntN(6)])
		}
	case 2:
		e.ping()
	case 3:
		e.frame(0x77, 0xff, uint32(m.rng.IntN(9)), make([]byte, m.rng.IntN(50)))
	case 4, 5, 6:
		if k := m.anyCall(); k != nil {
			k.breakOff()
		}
	case 7:
		if !e.client && m.rng.IntN(3) == 0 {
			e.goAway()
		}
	case 8:
		if m.rng.IntN(4) == 0 {
			e.cut()
		}
	case 9:
		if e.client && m.rng.IntN(4) == 0 {
			e.replace()
		}
	}
}

// breakOff resets the call from one end.
func (k *call) breakOff() {
	s := k.down
	if k.m.rng.IntN(2) == 0 && len(k.ups) > 0 {
		s = k.ups[len(k.ups)-1]
		if !s.live() {
			return
		}
		if !s.sentHead && k.m.rng.IntN(3) > 0 {
			k.disturbed = k.disturbed || k.reqLen > k.m.sh.relay.cfg.Forwarding.MaxReplay
			s.late = s.credited || k.m.sh.clock()-s.began > int64(refusedWithin)
			s.e.reset(s, errRefusedStream)
			return
		}
	}
	if s == k.down && k.local != nil {
		k.disturbed = k.disturbed || !s.gotEnd
		k.local.Cancel()
		return
	}
	if s.sentReset || s.gotReset || s.e.client && s.gotEnd {
		return
	}
	k.disturbed = k.disturbed || s.e.client || s.sentHead || !k.startsAgain()
	s.e.reset(s, errCancel)
}

// goAway disowns the streams that have no response yet.
func (e *endpoint) goAway() {
	var last uint32
	for id, s := range e.sides {
		if s.sentHead || s.sentReset {
			last = max(last, id)
		}
	}
	if e.lastID > last {
		last += uint32(e.m.rng.IntN(int(e.lastID - last + 1)))
	}
	before := e.lastGood
	e.lastGood = min(before, last)
	for id, s := range e.sides {
		if id <= e.lastGood || id > before {
			continue
		}
		s.late = s.late || s.credited
		s.call.disturbed = s.call.disturbed || s.call.reqLen > e.m.sh.relay.cfg.Forwarding.MaxReplay
	}
	e.frame(frameGoAway, 0, 0, appendUint32(appendUint32(nil, e.lastGood), 0))
}

// replace makes the relay ask a client to reconnect.
func (e *endpoint) replace() {
	e.m.sh.enter()
	defer e.m.sh.leave()
	if e.c.settled && !e.c.closed {
		e.c.drain()
	}
}

// cut ends a connection abruptly.
func (e *endpoint) cut() {
	e.m.collect()
	for _, s := range e.sides {
		s.call.disturbed = s.call.disturbed || !s.gotReset && !s.sentReset && (e.client || s.sentHead ||
			!s.call.startsAgain())
	}
	e.gone = true
	e.m.sh.enter()
	e.c.streams.each(func(h *half) {
		if k := h.stream.Value.(*call); h == &h.stream.down || h.stream.started || !k.startsAgain() {
			k.disturbed = true
		}
	})
	e.c.lost(io.EOF)
	e.m.sh.leave()
}

// TestReplacedConnectionWaitsForItsReader: a connection that is being replaced ends once its client has read the end of
// the last call, however slowly it reads.
func TestReplacedConnectionWaitsForItsReader(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		m := newMachine(t, 1, Config{})
		e := m.addClient()
		k := m.newCall()
		k.mode, k.respLen = "read-reply", 100
		k.open(e)
		deliverAll := func() {
			for m.takes(e) {
				m.deliver(e, readBuffer)
			}
		}
		deliverAll()
		e.replace()
		m.collect()
		deliverAll()
		m.collect()
		m.give(e, -e.link.room)
		for !k.down.sentEnd {
			k.sendRequest()
		}
		deliverAll()
		m.pass(5 * time.Second)
		m.give(e, plenty)
		m.collect()
		if !e.left || !k.down.gotEnd || k.down.status != "0" || !e.link.finished {
			t.Errorf("GOAWAY: %t, the call's end: %t, with %q, the connection's: %t", e.left, k.down.gotEnd,
				k.down.status, e.link.finished)
		}
	})
}

// Started notes that the response of a call has started.
func (h *machineHandler) Started(s *Stream) { h.beforeResponse(s).started = true }

// beforeResponse returns the call of a stream whose response must not have started.
func (h *machineHandler) beforeResponse(s *Stream) *call {
	k := h.call(s)
	if k.started {
		h.m.t.Errorf("call %d: its response has started", k.num)
	}
	return k
}
