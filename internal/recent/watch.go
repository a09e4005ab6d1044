package recent

import (
	"context"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/broadcast"
)

const (
	// maxUnread bounds the calls that a watcher has not read. A slower one misses others, and receives Missed.
	maxUnread = 256
	// maxPassed bounds the ids of calls that were passed on.
	maxPassed = 2048
	// patience is the time for which a watch waits for the store before it begins without.
	patience = time.Second
)

// The kinds of events.
const (
	Began  = "began"  // the watch begins here
	Ended  = "call"   // a call has ended
	Missed = "missed" // calls may be missing
)

// Event is an event of a watch.
type Event struct {
	Kind string
	Call Call // of Ended
}

// hub passes calls on to the watchers of this replica. While there are any, it watches the store.
type hub struct {
	store Store

	mu       sync.Mutex
	watchers broadcast.Feed[*Call]
	stop     context.CancelFunc // ends the watch of the store
	ended    chan struct{}      // closed when that has ended
	ready    chan struct{}      // closed once the store has connected
	passed   map[string]bool    // ids of calls that were passed on
	order    []string           // of passed, the oldest first
}

// Watch passes all calls on as they end, until ctx ends or f fails. With the id of a call, those that are kept and came
// after it come first.
func (l *Log) Watch(ctx context.Context, after string, f func(Event) error) error {
	return l.WatchMatching(ctx, nil, after, f)
}

// WatchMatching is like Watch, for the calls that a filter selects; nil selects all. Other calls take no room in the
// watch's buffer. The filter must not be changed.
func (l *Log) WatchMatching(ctx context.Context, filter *Filter, after string, f func(Event) error) error {
	w, ready := l.hub.join(filter)
	defer l.hub.leave(w)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ready:
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := f(Event{Kind: Began}); err != nil {
		return err
	}
	seen, err := l.resume(ctx, filter, after, f)
	for err == nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.Missed:
			err = f(Event{Kind: Missed})
		case c := <-w.Values:
			if !seen[c.ID] {
				err = f(Event{Kind: Ended, Call: *c})
			}
		}
	}
	return err
}

// resume passes on the selected calls after one, from the oldest to the newest, and returns their ids.
func (l *Log) resume(ctx context.Context, filter *Filter, after string, f func(Event) error) (seen map[string]bool,
	err error) {
	if after == "" {
		return nil, nil
	}
	calls, _ := l.Calls(ctx)
	from := -1
	for i := range calls {
		if calls[i].ID == after {
			from = i
		}
	}
	if from < 0 {
		return nil, f(Event{Kind: Missed})
	}
	seen = map[string]bool{after: true}
	for i := from - 1; i >= 0 && err == nil; i-- {
		if !filter.selects(&calls[i]) {
			continue
		}
		seen[calls[i].ID] = true
		err = f(Event{Kind: Ended, Call: calls[i]})
	}
	return seen, err
}

// join adds a watcher. ready is closed when it receives all calls.
func (h *hub) join(filter *Filter) (w *broadcast.Reader[*Call], ready <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w = h.watchers.Join(maxUnread, filter.selects); h.watchers.Readers() == 1 {
		h.begin()
	}
	return w, h.ready
}

// begin watches the store, beside the caller.
func (h *hub) begin() {
	h.ready = make(chan struct{})
	if h.store == nil {
		close(h.ready)
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	ended, before, ready := make(chan struct{}), h.ended, h.ready
	h.stop, h.ended = stop, ended
	connected := false // of the one goroutine that calls back
	go func() {        // leave stops it
		defer close(ended)
		if before != nil {
			<-before
		}
		h.store.Watch(ctx, h.pass, func() {
			if connected {
				h.watchers.Miss()
			} else {
				connected = true
				close(ready)
			}
		})
	}()
}

// leave removes a watcher. The last one ends the watch of the store.
func (h *hub) leave(w *broadcast.Reader[*Call]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.watchers.Leave(w)
	if h.watchers.Readers() == 0 && h.stop != nil {
		h.stop()
		h.stop = nil
	}
}

// Close waits for what watches began. All watches must have ended.
func (l *Log) Close() {
	l.hub.mu.Lock()
	ended := l.hub.ended
	l.hub.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// pass sends calls to the watchers, each call once.
func (h *hub) pass(calls []Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers.Readers() == 0 {
		return
	}
	if h.passed == nil {
		h.passed = map[string]bool{}
	}
	for _, c := range calls { // copied: one that waits for a reader does not keep the others
		if h.passed[c.ID] {
			continue
		}
		h.passed[c.ID] = true
		if h.order = append(h.order, c.ID); len(h.order) > maxPassed {
			delete(h.passed, h.order[0])
			h.order = h.order[1:]
		}
		h.watchers.Send(&c)
	}
}
