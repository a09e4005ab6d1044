package relay

// How a dead connection is detected long before its idle timeout.

// Check sends a PING on each of the upstream's connections that has streams. A connection that receives nothing for
// Timeouts.Ping ends with its streams. Check is for an upstream that otherwise does not respond, and may be called
// often.
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

// maxEarlyPings is the maximum number of early PINGs on a connection since the peer last sent headers: servers of
// grpc-go close a connection after the third.
const maxEarlyPings = 2

// check sends a PING, unless one is pending, or the peer might consider it a flood.
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

// pingOpenSince returns the start of the wait for the response to a PING. Any data from an upstream restarts it: on a
// slow network, the response may be queued behind much data.
func (c *conn) pingOpenSince() int64 {
	if c.pool == nil {
		return c.pingSent
	}
	return max(c.pingSent, c.lastRead)
}
