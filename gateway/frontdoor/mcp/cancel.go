package mcp

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

// running are the requests of sessions that this replica serves, so that notifications/cancelled ends them. Replicas
// tell each other of notifications about requests that they do not serve. Requests of
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
	if key.id == "" {
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

// cancel ends a request. It is false if this replica does not serve it.
func (r *running) cancel(key requestKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	cancel, found := r.all[key]
	if found {
		cancel()
	}
	return found
}

// cancelPatience is how long a notification waits until other replicas are told of it.
const cancelPatience = time.Second

// cancel ends a request of a session, at whatever replica.
func (h *Handler) cancel(ctx context.Context, key requestKey) {
	if h.running.cancel(key) || h.cfg.Cancel == nil || key.session == "" {
		return
	}
	ctx, done := context.WithTimeout(ctx, cancelPatience)
	defer done()
	h.cfg.Cancel(ctx, key.session+"\n"+key.id)
}

// Cancelled ends a request that another replica was told to cancel, if this one serves it.
func (h *Handler) Cancelled(request string) {
	session, id, _ := strings.Cut(request, "\n")
	h.running.cancel(requestKey{session, id})
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
