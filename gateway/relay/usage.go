package relay

// Usage is what a relay holds at one moment.
type Usage struct {
	Clients   int // client connections that speak HTTP/2
	Upstreams int // connections to backends
	Streams   int // open streams of clients
	Buffers   int // bytes of memory in use for what waits to be read, decided or sent
}

// Usage looks at everything that the relay holds. It costs a little for each stream
// and connection, under the shards' locks.
func (r *Relay) Usage() Usage {
	var u Usage
	for _, sh := range r.shards {
		sh.each(u.add)
	}
	return u
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
	u.Streams += c.streams.count
	c.streams.each(func(h *half) {
		s := h.stream
		u.Buffers += cap(s.down.queue.buf) + cap(s.up.queue.buf) + s.headSize
	})
}
