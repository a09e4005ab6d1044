package relay

import (
	"net"
	"time"
)

// A panic ends as little as possible. In a callback of the Handler that is the stream, because the relay itself was
// not running. Anywhere else under a shard's lock, the shard's state may be inconsistent: all of it is dropped with
// the shard's connections, and the shard starts again. Other shards continue.

// panicked reports a panic. It is called by the deferred function that recovered.
func (r *Relay) panicked(where string, v any) {
	defer func() { _ = recover() }() // the report must not end the process
	if r.cfg.Panicked != nil {
		r.cfg.Panicked(where, v)
		return
	}
	r.cfg.Log.Error("panic", "where", where)
}

// guardCall ends a stream whose Handler has panicked. It must be deferred.
func (s *Stream) guardCall() {
	v := recover()
	if v == nil {
		return
	}
	if s.sh.acting > 0 {
		panic(v) // a panic of the relay, which leave handles
	}
	s.sh.relay.panicked("relay handler", v)
	s.fail(Panicked)
}

func (s *Stream) callHeaders() {
	defer s.guardCall()
	s.sh.relay.handler.Headers(s)
}

func (s *Stream) callMessage(m Message) {
	defer s.guardCall()
	s.sh.relay.handler.Message(s, m)
}

func (s *Stream) callUnsent(err error) {
	defer s.guardCall()
	s.sh.relay.handler.Unsent(s, err)
}

// callResume calls f with the stream, or with nil if it has ended.
func (s *Stream) callResume(f func(*Stream), with *Stream) {
	if with == nil {
		defer s.guardAnswer()
	} else {
		defer s.guardCall()
	}
	f(with)
}

// callWeb calls Config.Web. It returns false if the stream was ended.
func (s *Stream) callWeb(seen func(*Stream)) bool {
	defer s.guardCall()
	seen(s)
	return true
}

// callAgain calls Handler.Again. It returns false after a panic: the stream then ends with the upstream's result.
func (s *Stream) callAgain(a Answer) (again bool) {
	defer s.guardAnswer()
	return s.sh.relay.handler.Again(s, a)
}

// callStarted calls Handler.Started.
func (s *Stream) callStarted() {
	defer s.guardAnswer()
	s.sh.relay.handler.Started(s)
}

// callExceeded calls Handler.Exceeded. It returns the failure with which the stream must end; NoFailure means that it
// may continue.
func (s *Stream) callExceeded(f Failure) (end Failure) {
	end = Panicked
	defer s.guardAnswer()
	if s.sh.relay.handler.Exceeded(s, f) {
		return f
	}
	return NoFailure
}

// callExplain calls Handler.Explain. It returns a default status after a panic.
func (s *Stream) callExplain(f Failure) (st Status) {
	st = Status{Code: codeInternal, Message: "internal error"}
	defer s.guardAnswer()
	return s.sh.relay.handler.Explain(s, f)
}

// callBody calls the tap. It returns false after a panic; the tap is not called again.
func (s *Stream) callBody(p []byte) bool {
	defer s.guardAnswer()
	t := s.tap
	s.tap = nil
	t.Body(p)
	s.tap = t
	return true
}

// callDone calls Handler.Done once.
func (s *Stream) callDone() {
	defer s.guardAnswer()
	s.announced = false
	r, o := &s.sh.result, &s.result
	*r = Result{Code: o.Code, Failure: o.Failure, Upstream: o.Upstream, BytesIn: o.BytesIn, BytesOut: o.BytesOut,
		Started: s.Started(), Forwarded: o.Forwarded, FirstByte: o.FirstByte,
		Ended: time.Duration(s.sh.now) - s.began}
	s.sh.relay.handler.Done(s, r)
}

// guardAnswer reports a panic in a callback that does not change the relay. It must be deferred.
func (s *Stream) guardAnswer() {
	if v := recover(); v != nil {
		s.sh.relay.panicked("relay handler", v)
	}
}

// guardConn closes a connection whose goroutine has panicked without a shard. It must be deferred.
func (r *Relay) guardConn(nc net.Conn) {
	if v := recover(); v != nil {
		r.panicked("relay connection", v)
		_ = nc.Close()
	}
}

// crashed drops the shard's state: its connections are closed, its streams reported. The caller holds the lock, and
// has recovered v.
func (sh *shard) crashed(v any) {
	sh.relay.panicked("relay shard", v)
	conns, pools, streams := sh.conns, sh.pools, sh.ended
	for c := range conns {
		if c.pool == nil {
			streams = append(streams, c.streams.owners()...)
		}
	}
	for _, c := range sh.locals.all() {
		if c.stream != nil {
			streams = append(streams, c.stream)
		}
	}
	sh.wheel.forget()
	waiting, locals := sh.runQueue.empty(), sh.locals.all()
	sh.fresh()
	for _, p := range pools {
		p.abandon()
	}
	for c := range conns {
		sh.quietly(c.abandon)
	}
	for _, s := range streams {
		sh.quietly(s.abandon)
	}
	for _, c := range locals {
		sh.quietly(c.abandon)
	}
	for _, w := range waiting {
		sh.quietly(w.abandon)
	}
}

// quietly calls f and recovers a panic.
func (sh *shard) quietly(f func()) {
	defer func() {
		if v := recover(); v != nil {
			sh.relay.panicked("relay shard", v)
		}
	}()
	f()
}

// abandon drops the upstream's connections, which are closed with the shard's others.
func (p *pool) abandon() {
	p.upstream.conns.Add(-int64(len(p.conns)))
	p.dead, p.conns, p.first, p.last, p.queued = true, nil, nil, nil, 0
}

// abandon closes a connection in an unknown state.
func (c *conn) abandon() {
	if c.closed {
		return
	}
	c.closed, c.ending, c.draining, c.left, c.blocked = true, true, true, true, false
	c.streams, c.waiting, c.body = streamTable{}, halfList{}, bodyFrame{}
	c.out, c.partial, c.block, c.backlog = output{}, nil, headerBlock{}, nil
	c.own.forget()
	c.ungrouped.forget()
	c.charged, c.unsent = 0, 0
	c.sh.relay.connGone(c)
	c.link.close()
}

// abandon notifies the user of a local end in an unknown state.
func (c *clientEnd) abandon() {
	c.half, c.stream, c.pumps, c.prev, c.next = nil, nil, false, nil, nil
	c.leaveParent()
	if c.stop != nil {
		c.stop()
	}
	if !c.over {
		c.end(Status{Code: codeInternal, Message: "internal error"}, nil)
	}
	c.sh.relay.localGone()
}

// abandon reports a stream in an unknown state, which is not reused.
func (s *Stream) abandon() {
	report := s.announced
	if s.phase != over {
		s.result.Code, s.result.Failure, s.result.Upstream = codeInternal, Panicked, false
	}
	s.phase, s.gen = over, s.gen+1
	switch e := s.up.transport.(type) {
	case *serverEnd:
		e.abandon()
	case *webEnd:
		e.abandon()
	}
	s.down.transport, s.up.transport = nil, nil
	if s.group != nil {
		s.group.shards[s.sh.index].reset()
	}
	if s.charged != 0 { // the ledger is dropped with all streams
		s.ledger().forget()
		s.payer, s.charged = nil, 0
	}
	if report {
		s.callDone()
	}
}

// owners returns the streams of all halves in the table.
func (t *streamTable) owners() []*Stream {
	var all []*Stream
	for _, h := range t.all() {
		all = append(all, h.stream)
	}
	return all
}

// forget removes all timers. Their owners may set them again.
func (w *wheel) forget() {
	for i := range w.slots {
		for t := w.slots[i].next; t != nil; {
			next := t.next
			t.next, t.prev, t.when = nil, nil, 0
			t = next
		}
	}
	*w = wheel{done: w.done}
}

// reset removes the streams of the shard.
func (at *groupShard) reset() { at.held, at.first, at.last = 0, nil, nil }

// empty removes all entries.
func (q *runQueue) empty() []runnable {
	var all []runnable
	for q.upstreams.len()+q.clients.len() > 0 {
		all = append(all, q.next())
	}
	return all
}
