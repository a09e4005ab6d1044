package filter

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

// Deadline sets a call's deadline: its caller's, capped by the fleet's for calls that stream or do not. A method
// without an end has its caller's alone.
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
