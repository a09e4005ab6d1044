package gateway

import "github.com/capgate/capgate/gateway/filter"

// setDeadline sets the call's deadline: its caller's, capped by the fleet's. It counts from the call's
// first byte, and from here on: while the call is decided, too.
func setDeadline(t *filter.Call) {
	asked, has := t.Stream.Timeout()
	t.Deadline = t.Fleet.Deadlines.For(t.Info.Method, asked, has)
	t.Stream.SetDeadline(t.Deadline)
}
