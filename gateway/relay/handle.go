package relay

import (
	"context"
	"errors"
)

// Handle is a call served by the process, as the parent of subrequests. They run on its shard, end no later than its
// deadline, and end with it unless the handle was detached. A subrequest never ends its parent. A handle is dead when
// the function that serves the call has returned.
type Handle struct{ end *serverEnd }

// Errors of Open and Continue.
var (
	ErrHandleDead = errors.New("relay: the parent call has ended")
	ErrContinued  = errors.New("relay: the call is already being continued")
)

// parentState is guarded by serverEnd.mu.
type parentState struct {
	users      int  // number of functions that may use the handle; 0 means it is dead
	detached   bool // subrequests outlive the call
	continuing bool // a Continue is active
}

// Handle returns the handle for subrequests.
func (s *ServerStream) Handle() Handle { return Handle{&s.end} }

// Continue starts a subrequest that continues the same call: Stream.Continues returns the Stream.Value of the served
// call to the Handler. Only one may be active at a time.
func (s *ServerStream) Continue(ctx context.Context, q Request) (*ClientStream, error) {
	return s.Handle().Continue(ctx, q)
}

// Continue is ServerStream.Continue, also for a detached function.
func (h Handle) Continue(ctx context.Context, q Request) (*ClientStream, error) {
	q.Parent, q.continues = h, true
	return h.end.sh.relay.Open(ctx, q)
}

// Detach runs f on a separate goroutine that may outlive the call. Subrequests of its handle may then outlive it too,
// and are not limited to its deadline. The context of f ends with the relay. Close and Shutdown wait for f. A panic is
// reported and ends f. If the handle is dead, f does not run.
func (h Handle) Detach(f func(context.Context)) error {
	e := h.end
	if !e.hold() {
		return ErrHandleDead
	}
	e.sh.relay.goServe(func() {
		ctx, cancel := context.WithCancel(e.sh.relay.ctx)
		defer func() {
			if v := recover(); v != nil {
				e.sh.relay.panicked("relay serve", v)
			}
			cancel()
			e.release()
		}()
		f(ctx)
	})
	return nil
}

// hold keeps a handle alive until release, unless it is dead.
func (e *serverEnd) hold() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.parent.users == 0 {
		return false
	}
	e.parent.users++
	e.parent.detached = true
	return true
}

// release is called when a function that could use the handle has returned.
func (e *serverEnd) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.parent.users--
}

func (e *serverEnd) isDetached() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.parent.detached
}

// beget reports an error if a subrequest may not start.
func (e *serverEnd) beget(continues bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.parent.users == 0:
		return ErrHandleDead
	case continues && e.parent.continuing:
		return ErrContinued
	}
	e.parent.continuing = e.parent.continuing || continues
	return nil
}

// continued ends a Continue.
func (e *serverEnd) continued() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.parent.continuing = false
}

// joinParent adds the call to its parent, with the shard locked. It returns false if the parent has ended.
func (c *clientEnd) joinParent() bool {
	p := c.request.Parent.end
	if p == nil {
		return true
	}
	if p.half == nil && !p.isDetached() {
		return false
	}
	if c.request.continues {
		p.reportDone()
	}
	p.children.add(c)
	return true
}

// reportDone reports the end of an earlier continuation, which may have ended in this turn.
func (e *serverEnd) reportDone() {
	for _, s := range e.sh.ended {
		if c, local := s.client.(*clientEnd); local && c.request.continues && c.request.Parent.end == e {
			s.reportDone()
		}
	}
}

// leaveParent undoes joinParent.
func (c *clientEnd) leaveParent() {
	p := c.request.Parent.end
	if p == nil {
		return
	}
	p.children.remove(c)
	if c.request.continues {
		p.continued()
	}
}

// Continues returns the Value of the stream that this one continues, as of Serve. ok is false if it continues none.
func (s *Stream) Continues() (value any, ok bool) {
	c, local := s.client.(*clientEnd)
	if !local || !c.request.continues {
		return nil, false
	}
	return c.request.Parent.end.value, true
}
