package relay

import (
	"fmt"
	"slices"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept"
)

// pool is a shard's set of connections to one upstream, with the streams that wait for one.
type pool struct {
	sh       *shard
	upstream *Upstream
	conns    []*conn // accept new streams
	dialing  int     // connections being dialed, or without the peer's SETTINGS

	first, last *Stream // waiting
	queued      int

	failed      error // error of the last dial
	failedAt    int64
	dispatching bool
	dead        bool // dropped by its shard: connections must not join it
}

// dialPause is the time for which streams are rejected after a failed dial.
const dialPause = int64(50 * time.Millisecond)

func (sh *shard) poolOf(u *Upstream) *pool {
	p := sh.pools[u]
	if p == nil {
		p = &pool{sh: sh, upstream: u}
		sh.pools[u] = p
	}
	return p
}

// add starts a stream on a connection, now or later.
func (p *pool) add(s *Stream) {
	if p.queued == 0 {
		if c := p.pick(); c != nil {
			s.start(c)
			return
		}
	}
	switch {
	case p.queued >= p.upstream.cfg.MaxQueue:
		s.unsent(ErrQueueFull)
	case p.failed != nil && len(p.conns)+p.dialing == 0 && p.sh.now-p.failedAt < dialPause:
		s.unsent(p.failed)
	default:
		s.next = nil
		if p.last == nil {
			p.first = s
		} else {
			p.last.next = s
		}
		p.last = s
		p.queued++
		p.dial()
	}
}

// remove removes a stream from the queue.
func (p *pool) remove(s *Stream) {
	var before *Stream
	for x := p.first; x != s; x = x.next {
		before = x
	}
	if before == nil {
		p.first = s.next
	} else {
		before.next = s.next
	}
	if p.last == s {
		p.last = before
	}
	s.next = nil
	p.queued--
}

func (p *pool) pop() *Stream {
	s := p.first
	p.remove(s)
	return s
}

// pick returns a connection that accepts one more stream. Streams are concentrated on few connections, because a
// single write for many streams is efficient.
func (p *pool) pick() *conn {
	for _, c := range p.conns {
		if c.takes() && !c.full() {
			return c
		}
	}
	return nil
}

func (c *conn) takes() bool { return c.streams.count < int(c.peerMaxStreams) && c.lastID < maxStreamID }

// busy reports whether a connection will accept more streams after this turn's output is written.
func (p *pool) busy() bool {
	for _, c := range p.conns {
		if c.takes() && c.full() && !c.blocked {
			return true
		}
	}
	return false
}

// dispatch starts waiting streams on connections that accept them.
func (p *pool) dispatch() {
	if p.dispatching || p.queued == 0 {
		return
	}
	p.dispatching = true
	for p.queued > 0 {
		c := p.pick()
		if c == nil {
			break
		}
		p.pop().start(c)
	}
	p.dispatching = false
	if p.queued > 0 {
		p.dial()
	}
}

func (p *pool) dial() {
	if p.dialing > 0 || p.busy() || len(p.conns) >= p.upstream.cfg.MaxConns {
		return
	}
	p.dialing++
	p.sh.relay.wg.Go(func() {
		var memory accept.Reservation
		if !memory.Begin(p.upstream.account(), p.upstream.cost()) {
			p.sh.undialed(p, fmt.Errorf("connect: %w", accept.ErrNoMemory))
			return
		}
		var run func()
		if nc, err := p.upstream.reach(p.sh.relay.ctx); err != nil {
			p.sh.undialed(p, fmt.Errorf("connect: %w", err))
		} else {
			run = p.sh.newLink(nc, p, nil, nil)
		}
		if run == nil {
			memory.End()
			return
		}
		p.sh.relay.wg.Go(func() { // this goroutine's stack has grown
			defer memory.End()
			run()
		})
	})
}

// undialed is pool.undialed for a caller without the lock.
func (sh *shard) undialed(p *pool, err error) {
	sh.enter()
	defer sh.leave()
	p.undialed(err)
}

// undialed is called when a connection could not be established. Waiting streams are rejected if there is no other
// connection to wait for.
func (p *pool) undialed(err error) {
	p.dialing--
	p.failed, p.failedAt = err, p.sh.now
	if len(p.conns)+p.dialing > 0 {
		return
	}
	for p.queued > 0 {
		p.pop().unsent(err)
	}
	p.forget()
}

// ready is called when a connection has received the peer's SETTINGS.
func (p *pool) ready(c *conn) {
	p.dialing--
	p.failed = nil
	p.conns = append(p.conns, c)
	p.upstream.conns.Add(1)
	p.dispatch()
	p.idle(c)
}

// retire removes a connection from those that accept new streams.
func (p *pool) retire(c *conn) {
	if i := slices.Index(p.conns, c); i >= 0 {
		p.conns = slices.Delete(p.conns, i, i+1)
		p.upstream.conns.Add(-1)
	}
}

// gone is called when a connection ends. It may be called repeatedly.
func (p *pool) gone(c *conn, err error) {
	if c.left {
		return
	}
	c.left = true
	if !c.settled {
		p.undialed(err)
	}
	p.retire(c)
	p.dispatch()
	p.forget()
}

// close ends the connections without streams of a closed upstream.
func (p *pool) close() {
	for _, c := range slices.Clone(p.conns) {
		p.idle(c)
	}
	p.forget()
}

// idle ends a connection to a closed upstream if it has no streams. Until then it also accepts new streams, which were
// sent to the upstream before it was closed.
func (p *pool) idle(c *conn) {
	if p.upstream.closed.Load() && p.queued == 0 && c.streams.count == 0 {
		p.retire(c)
		c.draining = true
		c.closeIfDone()
	}
}

// forget drops the pool of a closed upstream.
func (p *pool) forget() {
	if p.upstream.closed.Load() && p.dialing == 0 && p.queued == 0 && len(p.conns) == 0 && p.sh.pools[p.upstream] == p {
		delete(p.sh.pools, p.upstream)
	}
}
