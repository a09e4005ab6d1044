package gateway

import (
	"github.com/capgate/capgate/internal/call"
)

// setDeadline sets the call's deadline: its caller's, capped by the fleet's. It counts from the call's
// first byte, and from here on: while the call is decided, too.
func (t *transit) setDeadline() {
	asked, has := t.stream.Timeout()
	t.limit = t.fleet.Deadlines.For(t.call.Method, asked, has)
	t.stream.SetDeadline(t.limit)
}

// setEngineDeadline is setDeadline for methods of engines, of which some stream, and some go on for ever.
func (t *transit) setEngineDeadline() {
	asked, has := t.stream.Timeout()
	switch d := t.fleet.Deadlines; {
	case t.engine.Endless && !has:
		return
	case t.engine.Endless:
		t.limit = asked
	case t.engine.Streams:
		t.limit = d.For(call.StreamInvoke, asked, has)
	default:
		t.limit = d.For(call.Invoke, asked, has)
	}
	t.stream.SetDeadline(t.limit)
}
