package relay

import "context"

// Outlive makes the response to the request of ctx outlive its handler, without a goroutine: after the handler has
// returned, its ResponseWriter can still be used, by one goroutine at a time, until end ends the response. With an
// error, end resets the stream, because the response is incomplete. It must be called exactly once. gone is called
// when the stream ends before; it must not block. The handler calls Outlive last, and must not write afterwards. It
// must have read the request's body, and sets trailers after Outlive, which releases a header that was sent. Outlive
// returns nil for a request over HTTP/1.1, whose handler has to wait.
func Outlive(ctx context.Context, gone func()) (end func(aborted error)) {
	e, ok := ctx.Value(webKey{}).(*webEnd)
	if !ok {
		return nil
	}
	e.outlives = true
	e.value = nil
	if e.writer.sent {
		e.writer.header = nil
	}
	e.sh.relay.wg.Add(1) // the goroutine of the handler is counted, too
	e.mu.Lock()
	e.gone = gone
	over := e.shut
	e.mu.Unlock()
	if over {
		gone()
	}
	e.sh.post(&e.event)
	return e.finish
}

// finish ends a response that has outlived its handler. An error resets its stream.
func (e *webEnd) finish(aborted error) {
	if aborted != nil {
		e.reset(errInternal, nil)
	} else {
		e.writer.finish()
	}
	e.over()
	e.sh.relay.wg.Done()
}

// left calls gone at the end of the stream.
func (e *webEnd) left() {
	e.mu.Lock()
	gone := e.gone
	e.mu.Unlock()
	if gone != nil {
		gone()
	}
}
