package gateway

import (
	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/internal/call"
)

// setDeadline sets the call's deadline: its caller's, capped by the fleet's. It counts from the call's
// first byte, and from here on: while the call is decided, too.
func setDeadline(t *filter.Call) {
	asked, has := t.Stream.Timeout()
	t.Deadline = t.Fleet.Deadlines.For(t.Info.Method, asked, has)
	t.Stream.SetDeadline(t.Deadline)
}

// setEngineDeadline is setDeadline for methods of engines, of which some stream, and some go on for ever.
func (t *callState) setEngineDeadline() {
	asked, has := t.Stream.Timeout()
	switch d := t.Fleet.Deadlines; {
	case t.engine.Endless && !has:
		return
	case t.engine.Endless:
		t.Deadline = asked
	case t.engine.Streams:
		t.Deadline = d.For(call.StreamInvoke, asked, has)
	default:
		t.Deadline = d.For(call.Invoke, asked, has)
	}
	t.Stream.SetDeadline(t.Deadline)
}
