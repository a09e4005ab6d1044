package relay

// Usage is a snapshot of what a relay holds.
type Usage struct {
	Clients   int // HTTP/2 connections of clients
	Upstreams int // connections to backends
	Streams   int // open streams of clients, and in-process calls
	Buffers   int // bytes of memory that wait to be read, decided or sent
}

// Usage returns what the relay holds. It costs a little for each stream and connection, under the shards' locks.
func (r *Relay) Usage() Usage {
	var u Usage
	for _, sh := range r.shards {
		sh.each(u.add)
		sh.countLocals(&u)
	}
	return u
}

func (sh *shard) countLocals(u *Usage) {
	sh.enter()
	defer sh.leave()
	sh.locals.each(func(c *clientEnd) { u.stream(c.half.stream) })
}

// stream counts an open stream of a client.
func (u *Usage) stream(s *Stream) {
	u.Streams++
	u.Buffers += s.down.queue.size() + s.up.queue.size() + int(s.headSize) + int(s.inside)
}

func (u *Usage) add(c *conn) {
	u.Buffers += cap(c.out.buf) + cap(c.partial) + cap(c.block.buf) + cap(c.backlog) + c.link.holds()
	if c.pool != nil {
		u.Upstreams++
		return
	}
	u.Clients++
	c.streams.each(func(h *half) { u.stream(h.stream) })
}
