package recent

import (
	"context"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/signal"
)

const (
	// maxUnread bounds the calls that wait for a watcher. One that reads too slowly misses others, and is told so.
	maxUnread = 256
	// maxTold is how many calls are remembered as told.
	maxTold = 2048
	// patience is how long a watch waits for the store before it begins without.
	patience = time.Second
)

// The kinds of events.
const (
	Began  = "began"  // the watch begins here
	Ended  = "call"   // a call has ended
	Missed = "missed" // calls may be missing
)

// Event is what a watcher is told.
type Event struct {
	Kind string
	Call Call // of Ended
}

// hub passes calls on to the watchers of this replica. While there are any, it watches the store.
type hub struct {
	store Store

	mu       sync.Mutex
	watchers map[*watcher]bool
	stop     context.CancelFunc // ends the watch of the store
	ended    chan struct{}      // closed when that has ended
	ready    chan struct{}      // closed once the store has connected
	told     map[string]bool    // ids
	order    []string           // of told, the oldest first
}

// watcher has what one watch has not read. Watchers share the calls, which are not changed.
type watcher struct {
	filter *Filter // nil: all calls
	calls  chan *Call
	missed chan struct{} // capacity 1
}

// Watch passes all calls on as they end, until ctx ends or f fails. With the id of a call, those that are kept and came
// after it come first.
func (l *Log) Watch(ctx context.Context, after string, f func(Event) error) error {
	return l.WatchMatching(ctx, nil, after, f)
}

// WatchMatching is Watch for the calls that a filter selects; nil: all. No other calls take room among those that f has
// not read. The filter must not be changed.
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
		case <-w.missed:
			err = f(Event{Kind: Missed})
		case c := <-w.calls:
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

// join adds a watcher. ready is closed when it gets all calls.
func (h *hub) join(filter *Filter) (w *watcher, ready <-chan struct{}) {
	w = &watcher{filter: filter, calls: make(chan *Call, maxUnread), missed: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watchers == nil {
		h.watchers, h.told = map[*watcher]bool{}, map[string]bool{}
	}
	h.watchers[w] = true
	if len(h.watchers) == 1 {
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
		h.store.Watch(ctx, h.tell, func() {
			if connected {
				h.miss()
			} else {
				connected = true
				close(ready)
			}
		})
	}()
}

// leave removes a watcher. The last one ends the watch of the store.
func (h *hub) leave(w *watcher) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.watchers, w)
	if len(h.watchers) == 0 && h.stop != nil {
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

// tell passes calls on, each once.
func (h *hub) tell(calls []Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.watchers) == 0 {
		return
	}
	for i := range calls {
		c := &calls[i]
		if h.told[c.ID] {
			continue
		}
		h.told[c.ID] = true
		if h.order = append(h.order, c.ID); len(h.order) > maxTold {
			delete(h.told, h.order[0])
			h.order = h.order[1:]
		}
		h.pass(c)
	}
}

// pass passes a copy of a call on to the watchers that it concerns. The caller holds mu.
func (h *hub) pass(c *Call) {
	var shared *Call
	for w := range h.watchers {
		if !w.filter.selects(c) {
			continue
		}
		if shared == nil {
			one := *c
			shared = &one
		}
		select {
		case w.calls <- shared:
		default:
			w.miss()
		}
	}
}

// miss tells all watchers that calls may be missing.
func (h *hub) miss() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for w := range h.watchers {
		w.miss()
	}
}

func (w *watcher) miss() {
	signal.Wake(w.missed)
}
