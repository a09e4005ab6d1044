package relay

// Usage is what a relay holds at one moment.
type Usage struct {
	Clients   int // client connections that speak HTTP/2
	Upstreams int // connections to backends
	Streams   int // open streams of clients, and calls that began in the process
	Buffers   int // bytes of memory in use for what waits to be read, decided or sent
}

// Usage looks at everything that the relay holds. It costs a little for each stream
// and connection, under the shards' locks.
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

// stream counts the open stream of a client.
func (u *Usage) stream(s *Stream) {
	u.Streams++
	u.Buffers += cap(s.down.queue.buf) + cap(s.up.queue.buf) + s.headSize + s.inside
}

func (u *Usage) add(c *conn) {
	u.Buffers += cap(c.out.buf) + cap(c.partial) + cap(c.block.buf) + cap(c.backlog)
	if l, ok := c.link.(*connLink); ok {
		u.Buffers += cap(l.pending)
	}
	if c.pool != nil {
		u.Upstreams++
		return
	}
	u.Clients++
	c.streams.each(func(h *half) { u.stream(h.stream) })
}
