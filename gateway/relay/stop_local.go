package relay

import "context"

// awaitLocals waits for in-process calls and serving functions. New ones may still start, because serving functions
// may need them.
func (r *Relay) awaitLocals(ctx context.Context) error {
	r.parting.Store(true)
	for {
		left := int(r.serving.Load())
		for _, sh := range r.shards {
			left += sh.localsLeft()
		}
		if left == 0 {
			return nil
		}
		select {
		case <-r.gone:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// localGone is called at the end of an in-process call, or of a serving function.
func (r *Relay) localGone() {
	if r.parting.Load() {
		wake(r.gone)
	}
}

// localsLeft returns the number of in-process calls.
func (sh *shard) localsLeft() int {
	sh.enter()
	defer sh.leave()
	return sh.locals.count
}

// cutOffLocals ends all in-process calls with the Handler's status for Draining.
func (sh *shard) cutOffLocals() {
	sh.enter()
	defer sh.leave()
	sh.locals.each(func(c *clientEnd) { c.half.stream.fail(Draining) })
}

// closeLocals ends all in-process calls, and prevents new ones.
func (sh *shard) closeLocals() {
	sh.enter()
	defer sh.leave()
	sh.closed = true
	sh.locals.each(func(c *clientEnd) {
		s := c.half.stream
		if s.fail(Draining); c.half != nil {
			s.canceled(errCancel)
		}
	})
}
