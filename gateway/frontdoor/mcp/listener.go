package mcp

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/lib/signal"
)

// listener is a stream that notifies a client of changes of its lists. It has a goroutine only while it sends, because
// there may be many.
type listener struct {
	h       *Handler
	ctx     context.Context //nolint:containedctx // of the request
	r       *http.Request
	watches bool                      // the stream lasts; otherwise it ends after begin
	lists   Lists                     // of which the client is notified
	begin   func() error              // notifies the client that the stream is open
	told    func(method string) error // notifies the client of a change
	updates *subscriptions            // of the stream; nil means none

	task   signal.Task // the only user of the fields up to over
	served atomic.Bool // serve has been called
	left   atomic.Bool // the client has disconnected, or does not read
	rests  atomic.Bool // the last notification was sent less than listenPause ago
	rest   *time.Timer // ends rests
	watch  Watch
	begun  bool
	few    bool          // the list of tools had the two tools that search the others
	opened chan struct{} // closed when the stream has begun or ended

	finish  func(error)
	aborted error         // the response is incomplete
	ended   chan struct{} // closed at the end

	mu   sync.Mutex
	over bool
	end  func(aborted error) // ends a response that outlives its handler
}

// serve serves the stream until it ends, or lets it outlive its handler, whose response out is. finish is called with
// the error at the end, after which nothing is sent. The result is an error if the response is incomplete.
func (l *listener) serve(out http.ResponseWriter, finish func(error)) (aborted error) {
	l.finish, l.opened, l.ended = finish, make(chan struct{}), make(chan struct{})
	l.task.Run = l.work
	l.served.Store(true)
	l.task.Wake()
	if l.await(l.opened); l.outlives(out) {
		return nil
	}
	l.await(l.ended)
	return l.aborted
}

// await waits until a channel of the stream is closed. The stream ends with its request.
func (l *listener) await(closed chan struct{}) {
	select {
	case <-closed:
	case <-l.ctx.Done():
		l.leave()
		<-closed
	}
}

// outlives lets the stream outlive its handler, and reports whether that is possible.
func (l *listener) outlives(out http.ResponseWriter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w, ok := out.(*bodybudget.Writer)
	if l.over || !ok || l.h.cfg.Outlive == nil {
		return false
	}
	end := l.h.cfg.Outlive(l.r, l.leave)
	if end == nil {
		return false
	}
	w.Outlive()
	l.end = func(aborted error) {
		w.Reset()
		end(aborted)
	}
	return true
}

// leave ends the stream, also one that is not served yet. It does not block.
func (l *listener) leave() {
	l.left.Store(true)
	if l.updates != nil {
		l.updates.cancel() // begin may wait for servers
	}
	if l.served.Load() {
		l.task.Wake()
	}
}

// work does what is due.
func (l *listener) work() {
	if l.over {
		return
	}
	over := true
	err := recovery.Do("mcp listener", func() (err error) { over, err = l.step(); return err })
	if over || err != nil {
		_ = recovery.Do("mcp listener", func() error { l.stop(err); return nil })
	}
}

// step sends what has changed, and reports whether the stream is over.
func (l *listener) step() (over bool, err error) {
	switch {
	case l.left.Load():
		return true, nil
	case !l.watches:
		return true, l.begin()
	case l.watch == nil:
		if l.watch, err = l.h.cfg.Catalog.Watch(l.ctx, l.task.Wake); err != nil {
			return true, err
		}
	}
	switch {
	case l.watch.Over():
		return true, nil
	case l.rests.Load():
		return false, nil
	}
	changed, err := l.watch.Next()
	if err != nil || changed == 0 {
		return false, err
	}
	before := l.few
	l.few = l.h.searches(l.r)
	switch {
	case !l.begun:
		if err = l.begin(); err == nil {
			l.begun = true
			close(l.opened)
		}
		return false, err
	case before && l.few: // the list still has the same two tools
		changed &^= ToolList
	}
	return false, l.tell(changed & l.lists)
}

// tell notifies the client of changes.
func (l *listener) tell(changed Lists) error {
	for _, c := range listChanges {
		if changed&c.of == 0 {
			continue
		}
		if err := l.told(c.method); err != nil {
			return err
		}
	}
	l.rests.Store(true)
	l.rest = time.AfterFunc(listenPause, func() {
		l.rests.Store(false)
		l.task.Wake()
	})
	return nil
}

// stop ends the stream.
func (l *listener) stop(err error) {
	if l.watch != nil {
		l.watch.Stop()
	}
	if l.rest != nil {
		l.rest.Stop()
	}
	l.mu.Lock()
	l.over = true
	end := l.end
	l.mu.Unlock()
	defer close(l.ended)
	if !l.begun {
		defer close(l.opened)
	}
	if l.aborted = l.finishes(err); end != nil {
		end(l.aborted)
	}
}

// finishes calls finish. It returns an error if finish panics, which http.ErrAbortHandler does on purpose.
func (l *listener) finishes(err error) error {
	return recovery.Do("mcp listener", func() (aborted error) {
		defer func() {
			switch v := recover(); v { //nolint:errorlint // as net/http compares it
			case nil:
			case http.ErrAbortHandler:
				aborted = http.ErrAbortHandler
			default:
				panic(v)
			}
		}()
		l.finish(err)
		return nil
	})
}
