package relay

import "time"

// How a client is made to connect again, so that its next connection may reach another replica.

// lifetime returns when a connection that begins now is to be replaced, on the shard's clock; 0 means never.
func (r *Relay) lifetime(now int64) int64 {
	if age := r.cfg.Age.Spread(); age > 0 {
		return now + int64(age)
	}
	return 0
}

// replace has the client go elsewhere, and ends the calls that are left after Age.Grace.
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

// Move has clients over HTTP/2 go elsewhere whose connections are older than age. Their calls may finish. New
// connections are accepted.
func (r *Relay) Move(age time.Duration) {
	r.eachClient(func(c *conn) {
		if c.settled && c.drainPhase == notDraining && c.sh.now-c.began > int64(age) {
			c.replace()
			c.setTimer()
		}
	})
}
