package relay

// How a connection is found out whose peer does not answer any more, long before its time of silence is over.

// Check sends a PING over the upstream's connections that have streams. One that neither answers it nor brings anything
// else for Timeouts.Ping ends with its streams. Check is for an upstream that does not answer otherwise, and may be
// called often.
func (u *Upstream) Check() {
	for _, sh := range u.relay.shards {
		sh.check(u)
	}
}

func (sh *shard) check(u *Upstream) {
	sh.enter()
	defer sh.leave()
	for c := range sh.conns {
		if c.pool != nil && c.pool.upstream == u {
			c.check()
		}
	}
}

// maxEarlyPings is how many PINGs before their time a connection gets for which the peer has sent no headers: grpc-go's
// servers end a connection with the third one.
const maxEarlyPings = 2

// check sends a PING, unless one is on its way, or the peer might take it for a flood.
func (c *conn) check() {
	if c.ending || c.closed || !c.settled || c.streams.count == 0 || c.pingSent != 0 {
		return
	}
	if since := c.sh.now - c.pinged; c.pinged != 0 && since < int64(c.keepAlive()) {
		if c.early == maxEarlyPings || since < int64(c.sh.relay.cfg.Timeouts.Ping) {
			return
		}
		c.early++
	}
	c.ping()
	c.setTimer()
}

// ping sends a PING that the peer must answer.
func (c *conn) ping() {
	c.pingSent, c.pinged = c.sh.now, c.sh.now
	c.writePing(uint64(c.sh.now))
}

// pingOpenSince returns the time at which the wait for the response to a PING began. Whatever an upstream sends begins
// it anew: over a slow network, the response may be behind a long one.
func (c *conn) pingOpenSince() int64 {
	if c.pool == nil {
		return c.pingSent
	}
	return max(c.pingSent, c.lastRead)
}
