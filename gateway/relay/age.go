package relay

import "time"

// How clients are moved to another replica by replacing their connections.

// lifetime returns the time at which a connection that starts now must be replaced, on the shard's clock; 0 means
// never.
func (r *Relay) lifetime(now int64) int64 {
	if age := r.cfg.Age.Spread(); age > 0 {
		return now + int64(age)
	}
	return 0
}

// replace drains the client's connection, and ends the remaining calls after Age.Grace.
func (c *conn) replace() {
	if c.drainPhase != notDraining {
		c.replaceAt = 0
		c.cutOff()
		return
	}
	if c.replaceAt = 0; c.sh.relay.cfg.Age.Grace > 0 {
		c.replaceAt = c.sh.now + int64(c.sh.relay.cfg.Age.Grace)
	}
	c.drain()
}

// Move drains HTTP/2 connections of clients that are older than age. Their calls may finish. New connections are
// accepted.
func (r *Relay) Move(age time.Duration) {
	r.eachClient(func(c *conn) {
		if c.settled && c.drainPhase == notDraining && c.sh.now-c.began > int64(age) {
			c.replace()
			c.setTimer()
		}
	})
}
