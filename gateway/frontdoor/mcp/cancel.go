package mcp

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/lib/strictjson"
)

// running tracks the requests of sessions that this replica serves, so that notifications/cancelled ends them.
// Replicas forward notifications about requests that they do not serve. Requests of revisions without sessions end
// with their connection. The size is bounded by the number of requests.
type running struct {
	mu  sync.Mutex
	all map[requestKey]context.CancelFunc
}

// requestKey identifies a request of a session.
type requestKey struct{ session, id string }

// begin returns a context that a cancellation ends, and a function that must be called after the request.
func (r *running) begin(ctx context.Context, key requestKey) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	if key.id == "" {
		return ctx, cancel
	}
	remove := r.add(key, cancel)
	return ctx, func() {
		cancel()
		remove()
	}
}

// add makes a cancellation call cancel, until remove is called. Without an id it does nothing.
func (r *running) add(key requestKey, cancel func()) (remove func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, twice := r.all[key]; twice || key.id == "" { // an id in use stays with its request
		return func() {}
	}
	if r.all == nil {
		r.all = map[requestKey]context.CancelFunc{}
	}
	r.all[key] = cancel
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.all, key)
	}
}

// cancel ends a request. It returns false if this replica does not serve it.
func (r *running) cancel(key requestKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	cancel, found := r.all[key]
	if found {
		cancel()
	}
	return found
}

// cancelPatience is the maximum time to forward a notification to other replicas.
const cancelPatience = time.Second

// cancel ends a request of a session at any replica. A cancellation that cannot be forwarded has no effect: the request
// ends with its connection.
func (h *Handler) cancel(r *http.Request, key requestKey) {
	if h.running.cancel(key) || h.cfg.Cancel == nil || key.session == "" || h.delay(r, 0) > 0 {
		return
	}
	ctx, done := context.WithTimeout(r.Context(), cancelPatience)
	defer done()
	_ = h.cfg.Cancel(ctx, key.session+"\n"+key.id)
}

// Cancelled ends a request that was cancelled at another replica, or answers a question of its server, if this one
// serves it. It does not block.
func (h *Handler) Cancelled(request string) {
	if answer, ok := strings.CutPrefix(request, answerPrefix); ok {
		h.forwarded(answer)
		return
	}
	session, id, _ := strings.Cut(request, "\n")
	h.running.cancel(requestKey{session, id})
}

// readCancelled reads the id of the request that a notification cancels.
func (m *message) readCancelled(params strictjson.Value) {
	if v, ok := params.Get("requestId"); ok {
		cancels := message{}
		if cancels.readID(v) == nil {
			m.cancels = string(cancels.id)
		}
	}
}
