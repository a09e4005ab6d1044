package filter

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

// Deadline sets a call's deadline: the client's, limited by the fleet's for streaming or other calls. A method without
// an end only has the client's.
func Deadline(c *filter.Call) {
	asked, has := c.Stream.Timeout()
	switch m, d := method(c), c.Fleet.Deadlines; {
	case m.Endless && !has:
		return
	case m.Endless:
		c.Deadline = asked
	case m.Streams:
		c.Deadline = d.For(call.StreamInvoke, asked, has)
	default:
		c.Deadline = d.For(call.Invoke, asked, has)
	}
	c.Stream.SetDeadline(c.Deadline)
}
