package mcp

import (
	"context"
	"sync"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

// running are the requests of sessions that this replica serves, so that notifications/cancelled ends them. Requests of
// revisions without sessions end with their connection. It is no larger than the number of requests.
type running struct {
	mu  sync.Mutex
	all map[requestKey]context.CancelFunc
}

// requestKey identifies a request of a session.
type requestKey struct{ session, id string }

// begin returns a context that a cancellation ends, and what is called after the request.
func (r *running) begin(ctx context.Context, key requestKey) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	if key.session == "" || key.id == "" {
		return ctx, cancel
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, twice := r.all[key]; twice { // an id in use is not taken from its request
		return ctx, cancel
	}
	if r.all == nil {
		r.all = map[requestKey]context.CancelFunc{}
	}
	r.all[key] = cancel
	return ctx, func() {
		cancel()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.all, key)
	}
}

// cancel ends a request, if this replica serves it.
func (r *running) cancel(key requestKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel, found := r.all[key]; found {
		cancel()
	}
}

// readCancelled takes the id of the request that a notification cancels.
func (m *message) readCancelled(params strictjson.Value) {
	if v, ok := params.Get("requestId"); ok {
		cancels := message{}
		if cancels.readID(v) == nil {
			m.cancels = string(cancels.id)
		}
	}
}
