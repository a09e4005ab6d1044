package relay

import "context"

// awaitLocals waits for the calls that began in the process, and for what it serves. Others may still begin: what is
// served may need them.
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

// localGone is called when a call of the process has ended, or a function that served one.
func (r *Relay) localGone() {
	if r.parting.Load() {
		wake(r.gone)
	}
}

// localsLeft counts the calls that are there.
func (sh *shard) localsLeft() int {
	sh.enter()
	defer sh.leave()
	return sh.locals.count
}

// cutOffLocals ends all of them with the Handler's answer to Draining.
func (sh *shard) cutOffLocals() {
	sh.enter()
	defer sh.leave()
	sh.locals.each(func(c *clientEnd) { c.half.stream.fail(Draining) })
}

// closeLocals ends all of them, and keeps others from beginning.
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
