package relay

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// webContext is the context of a request. It ends with the stream, or when the handler has returned. Most requests need
// no context of package context, see WaitIn.
type webContext struct {
	end  *webEnd
	over atomic.Bool
	full atomic.Pointer[fullContext] // nil until Done is called
}

// fullContext is a context of package context, from which others can be derived at no further cost.
type fullContext struct {
	context.Context //nolint:containedctx // a context
	cancel          context.CancelFunc
}

// finish ends the context.
func (c *webContext) finish() {
	if c.over.Swap(true) {
		return
	}
	if f := c.full.Load(); f != nil {
		f.cancel()
	}
	e := c.end
	e.mu.Lock()
	w := e.waiter
	e.mu.Unlock()
	if w != nil { // the shard may be locked, and its goroutine must not process another one
		e.sh.relay.wg.Go(w.Interrupt)
	}
}

// Done implements context.Context.
func (c *webContext) Done() <-chan struct{} {
	f := c.full.Load()
	if f == nil {
		f = new(fullContext)
		f.Context, f.cancel = context.WithCancel(context.Background())
		if !c.full.CompareAndSwap(nil, f) {
			f.cancel()
			f = c.full.Load()
		}
		if c.over.Load() {
			f.cancel()
		}
	}
	return f.Done()
}

// Err implements context.Context.
func (c *webContext) Err() error {
	if f := c.full.Load(); f != nil {
		return f.Err()
	}
	if c.over.Load() {
		return context.Canceled
	}
	return nil
}

// Deadline implements context.Context.
func (*webContext) Deadline() (by time.Time, ok bool) { return by, false }

// Value implements context.Context.
func (c *webContext) Value(key any) any {
	switch key {
	case webKey{}:
		return c.end
	case http.LocalAddrContextKey:
		return c.end.peer.Local
	case http.ServerContextKey:
		return c.end.sh.relay.accept.HTTP1()
	}
	if f := c.full.Load(); f != nil { // package context looks for its own context after Done
		return f.Value(key)
	}
	return nil
}

// Waiter waits for something besides the end of a request.
type Waiter interface {
	// Interrupt ends the wait, because the request has ended. It is called at most once, on another goroutine, and
	// possibly after the wait.
	Interrupt()
}

// ValueContext is a context that adds nothing but values to another one.
type ValueContext interface {
	context.Context
	// Outer returns the other context.
	Outer() context.Context
}

// WaitIn makes the end of a request over HTTP/2 interrupt w. A select on ctx.Done would cost more. ctx must be the
// context of the request, possibly within some of type ValueContext; otherwise, or if the request has a waiter already,
// ok is false. The caller must call end after the wait, which reports whether w was interrupted, or may still be.
func WaitIn(ctx context.Context, w Waiter) (of WaitOf, ok bool) {
	for {
		switch c := ctx.(type) {
		case *webContext:
			return WaitOf{c.end}, c.end.setWaiter(w)
		case ValueContext:
			ctx = c.Outer()
		default:
			return of, false
		}
	}
}

// WaitOf is a wait, see WaitIn.
type WaitOf struct{ end *webEnd }

// setWaiter sets the waiter of the request, unless it has one, or has ended.
func (e *webEnd) setWaiter(w Waiter) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiter != nil || e.ctx.over.Load() {
		return false
	}
	e.waiter = w
	return true
}

// End ends the wait. It reports whether its Waiter was interrupted, or may still be.
func (w WaitOf) End() (interrupted bool) {
	e := w.end
	e.mu.Lock()
	defer e.mu.Unlock()
	e.waiter = nil
	return e.ctx.over.Load()
}

// WebContext is a Stream.Value set by Config.Web that becomes the context of the request: a handler that adds values to
// it needs no copy of the request.
type WebContext interface {
	// Within is called once, before the handler. It returns the context of the request, within that of its stream.
	Within(context.Context) context.Context
}

type webKey struct{}

// ValueOf returns the Stream.Value that Config.Web set for the request of ctx; nil for an HTTP/1.1 request.
func ValueOf(ctx context.Context) any {
	if e, ok := ctx.Value(webKey{}).(*webEnd); ok {
		return e.value
	}
	return nil
}
