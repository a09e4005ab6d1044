package relay

// The transport methods of a connection.

var _ client = (*conn)(nil)

func (c *conn) attach(h *half) {
	c.streams.put(h)
	if c.streams.count == 1 {
		c.setTimer()
	}
}

func (c *conn) detach(h *half) {
	c.streams.remove(h.id)
	c.waiting.remove(h)
	if c.body.half == h {
		c.body.half = nil
	}
	c.streamGone()
}

// wait queues a half with data that the connection could not accept. A half whose own window is exhausted is woken by
// its WINDOW_UPDATE instead.
func (c *conn) wait(h *half) {
	if h.sendWin > 0 {
		c.waiting.push(h)
	}
}

func (c *conn) unwait(h *half) { c.waiting.remove(h) }

func (c *conn) cutShort(h *half, code errCode) { c.writeReset(h.id, code) }

func (c *conn) replenish(h *half, n int) { c.writeWindowUpdate(h.id, n) }

func (c *conn) state() *peerState { return &c.peerState }

func (c *conn) overBuffer() bool { return c.held > c.sh.relay.cfg.Memory.MaxConnBuffered }

func (c *conn) remote() *Peer { return c.peer }

func (c *conn) ledger() *ledger { return &c.ungrouped }

func (c *conn) setGroup(g *Group) {
	if !c.grouped {
		c.grouped = true
		c.own.move(g.account)
		c.sh.relay.SetGroup(c.peer, g)
	}
}

// messageTimedOut drains the connection of a client that does not finish a message.
func (c *conn) messageTimedOut() { c.drain() }
