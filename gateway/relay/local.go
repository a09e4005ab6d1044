package relay

import (
	"sync"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// localEnd is the transport of a half whose side is code in the process: its user, on another goroutine. Messages are
// exchanged in two buffers under the end's own lock, which is held only for a copy. The user never waits for the
// shard's lock: it posts the end's event, and the shard signals once a turn.
//
// Flow control is that of a connection: each buffer may hold as much as the stream's window, which is replenished when
// the other side has taken it. Only a message that is longer than the window may exceed it: its receiver grants as
// much in advance as has arrived. What waits for the user is charged to the stream.
type localEnd struct {
	sh    *shard
	event event
	owner localOwner

	// Guarded by the shard's lock.
	half          *half     // nil means not attached
	notifications uint8     // entries in shard.inbox.signals
	early         int       // window granted to the sender in advance
	most          int       // maximum bytes of a message
	counted       int       // part of in's capacity counted in Stream.inside
	pumps         bool      // a pump is deferred to the end of the turn
	discards      bool      // further input is discarded
	tooLong       bool      // a message was longer than most
	unary         bool      // in is the user's own buffer, and the user waits for the whole response
	raw           bool      // bytes are exchanged, not messages
	hold          Account   // charged for what a user of unary holds; optional
	counts        peerState // not checked, because code in the process causes no floods

	readable, writable chan struct{} // signal the user; in raw mode nil until it waits, and then guarded by mu

	mu      sync.Mutex
	in      byteQueue // to the user; only the shard grows and drops it
	inEnd   bool      // nothing follows in
	tooMuch bool      // a message that is too long follows in; the user is notified
	taken   int       // bytes that the user has taken from in since the last exchange
	out     []byte    // from the user, see put
	spare   []byte    // previous out, to which the shard may still refer
	credit  int       // bytes that out may still accept
	outEnd  bool      // nothing follows out
	holds   bool      // out must not be sent yet, because the response has no headers
	shut    bool      // the stream has ended, and further messages are lost
}

// localOwner is implemented by local downstreams and local upstreams.
type localOwner interface {
	actor
	// block passes headers or trailers to the user. They are valid only during the call.
	block(h *half, list *hpack.List, end bool)
	// ended is called after END_STREAM without trailers, and when the stream leaves the end; possibly more than once.
	ended(s *Stream)
	// overlong is called when a message for the user is too long. Nothing follows it.
	overlong(h *half)
}

// Users of a local end to notify.
const (
	notifyReceiver = 1 << iota
	notifySender
)

// prefixLen is the length of the prefix of a gRPC message.
const prefixLen = 5

var _ transport = (*localEnd)(nil)

func (e *localEnd) init(owner localOwner, sh *shard, most int) {
	e.owner, e.sh, e.most = owner, sh, most
	e.event.of = owner
	e.credit = sh.relay.cfg.HTTP2.StreamWindow
	if e.readable == nil && !e.raw {
		e.readable, e.writable = make(chan struct{}, 1), make(chan struct{}, 1)
	}
}

// notify signals the user at the end of the turn.
func (e *localEnd) notify(what uint8) {
	if e.notifications == 0 {
		e.sh.inbox.signals = append(e.sh.inbox.signals, e)
	}
	e.notifications |= what
}

func (e *localEnd) attach(h *half) { e.half = h }

func (e *localEnd) detach(h *half) {
	e.leave(h)
	e.owner.ended(h.stream)
}

// leave detaches from a half. The buffered input then belongs to its user.
func (e *localEnd) leave(h *half) {
	e.half = nil
	h.stream.inside -= int32(e.counted)
	h.stream.account(-e.counted)
	e.counted = 0
	h.stream.recount()
}

func (e *localEnd) room(h *half) int { return h.sendWin }

// wait pumps the half at the end of the turn, if its window has grown by then.
func (e *localEnd) wait(h *half) {
	if h.sendWin > 0 && !e.pumps {
		e.pumps = true
		e.sh.later(e.pump)
	}
}

func (e *localEnd) pump() {
	e.pumps = false
	if h := e.half; h != nil {
		h.stream.pump(h)
	}
}

func (e *localEnd) unwait(*half) {}

func (e *localEnd) writeData(h *half, buf []byte, pos, n int, end bool) {
	e.copyData(h, buf[pos:pos+n], end)
}

func (e *localEnd) copyData(h *half, p []byte, end bool) {
	h.sentEnd = h.sentEnd || end
	if len(p) > 0 && !e.discards {
		h.sendWin -= len(p)
		e.deliver(h, p)
	}
	if end {
		e.owner.ended(h.stream)
	}
}

// deliver appends bytes for the user.
func (e *localEnd) deliver(h *half, p []byte) {
	s := h.stream
	grown, have, need := e.append(p)
	e.counted += grown
	if s.inside += int32(grown); grown != 0 {
		f := s.holds(grown)
		if f == NoFailure && e.unary && e.hold != nil && cap(e.in.buf) > freeAnswer && !e.hold.Reserve(int64(grown)) {
			f = AccountExceeded
		}
		if f != NoFailure {
			e.failLater(s, f)
		}
	}
	if e.unary {
		h.sendWin += len(p)
	}
	e.look(h, have, need)
}

// freeAnswer is the maximum size of a response to Unary that the fixed cost of a request covers, in bytes.
const freeAnswer = 16 << 10

// look checks the message at the front of in, of which have bytes are available: it may be complete, longer than the
// window, or too long.
func (e *localEnd) look(h *half, have, need int) {
	switch {
	case e.discards:
	case need > prefixLen+e.most:
		e.dropFront()
		e.owner.overlong(h)
	case e.unary:
	case need <= have:
		e.notify(notifyReceiver)
	default:
		if more := min(have+readAhead, need) - have - h.sendWin; more > 0 {
			h.sendWin += more
			e.early += more
		}
	}
}

// append adds bytes to in. It returns the growth of the buffer, its length, and the length of the message at its
// front.
func (e *localEnd) append(p []byte) (grown, have, need int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	before := cap(e.in.buf)
	if e.unary {
		e.in.buf = append(e.in.buf, p...)
	} else {
		e.in.append(&e.sh.buffers, p, false)
	}
	have, need = e.front()
	return cap(e.in.buf) - before, have, need
}

// front returns the length of in, and the length of the message at its front; in raw mode, both are the same. The
// caller must hold mu.
func (e *localEnd) front() (have, need int) {
	if e.raw {
		return e.in.len(), e.in.len()
	}
	need = prefixLen
	if p := e.in.buf[e.in.off:]; len(p) >= prefixLen {
		need += int(be32(p[1:]))
	}
	return e.in.len(), need
}

func (e *localEnd) lockedFront() (have, need int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.front()
}

// dropFront removes a message that is too long.
func (e *localEnd) dropFront() {
	e.mu.Lock()
	e.in.buf = e.in.buf[:e.in.off]
	e.mu.Unlock()
	e.tooLong, e.discards = true, true
}

// failLater ends the stream after the current work of the turn.
func (e *localEnd) failLater(s *Stream, f Failure) {
	gen := s.gen
	e.sh.later(func() {
		switch {
		case s.gen != gen:
		case s.phase != answered:
			s.fail(f)
		case e.half == &s.down: // the response was already complete
			s.result.Code, s.result.Failure, s.result.Upstream = codeResourceExhausted, f, false
			s.finish()
		}
	})
}

// cutShort does nothing. detach follows, and notifies the user of the stream's end.
func (e *localEnd) cutShort(*half, errCode) {}

func (e *localEnd) replenish(_ *half, n int) {
	e.mu.Lock()
	e.credit += n
	e.mu.Unlock()
	e.notify(notifySender)
}

func (e *localEnd) state() *peerState { return &e.counts }

func (e *localEnd) beginBlock() blockWriter { return blockWriter{local: e, list: e.sh.newList()} }

// pass exchanges data with the user: its output is sent to the stream, and what it has taken is replenished.
func (e *localEnd) pass() {
	h := e.half
	s := h.stream
	out, end, taken, drained := e.exchange()
	if drained != nil {
		e.counted -= cap(drained)
		s.inside -= int32(cap(drained))
		s.account(-cap(drained))
		e.sh.buffers.put(drained)
		s.recount()
	}
	if taken > 0 {
		early := min(taken, e.early)
		e.early -= early
		h.sendWin += taken - early
		if have, need := e.lockedFront(); have > 0 && have < need {
			e.look(h, have, need)
		}
		s.pump(h)
	}
	for at := 0; at < len(out) && e.half == h; at += segment {
		frame := out[:min(at+segment, len(out))]
		pos := at + frameHeaderLen
		n := len(frame) - pos
		if h.accept(n, 0) != nil {
			s.receive(h, frame, pos, n, end && len(frame) == len(out))
		}
	}
	if end && e.half == h && !h.gotEnd {
		s.receive(h, nil, 0, 0, true)
	}
	if cap(out) > smallBuffer {
		e.sh.inbox.lent = append(e.sh.inbox.lent, e)
	}
}

// releaseHeld allows out to be sent, because the response now has headers.
func (e *localEnd) releaseHeld() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.holds = false
}

// exchange takes the user's output and the count of taken bytes. out is valid until the shard has settled.
func (e *localEnd) exchange() (out []byte, end bool, taken int, drained []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.holds {
		out, end = e.out, e.outEnd
		e.out, e.spare = e.spare[:0], out
	}
	taken, e.taken = e.taken, 0
	if e.in.len() == 0 && !e.unary {
		drained, e.in = e.in.buf, byteQueue{}
	}
	return out, end, taken, drained
}

// close notifies the user that both directions have ended.
func (e *localEnd) close() {
	e.mu.Lock()
	e.inEnd, e.shut = true, true
	e.mu.Unlock()
	e.notify(notifyReceiver | notifySender)
}
