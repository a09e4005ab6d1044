package checks

import "github.com/capgate/capgate/gateway/filter"

// Deadline sets the call's deadline: the client's, limited by the fleet's. It counts from the first byte of the call,
// and includes the time of its authorization.
func Deadline(c *filter.Call) {
	asked, has := c.Stream.Timeout()
	c.Deadline = c.Fleet.Deadlines.For(c.Info.Method, asked, has)
	if c.Deadline > 0 {
		c.Stream.SetDeadline(c.Deadline)
	}
}
