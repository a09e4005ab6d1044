package checks

import "github.com/capgate/capgate/gateway/filter"

// Deadline sets the call's deadline: its caller's, capped by the fleet's, if it has any. It counts from the call's
// first byte, and from here on: while the call is decided, too.
func Deadline(c *filter.Call) {
	asked, has := c.Stream.Timeout()
	c.Deadline = c.Fleet.Deadlines.For(c.Info.Method, asked, has)
	if c.Deadline > 0 {
		c.Stream.SetDeadline(c.Deadline)
	}
}
