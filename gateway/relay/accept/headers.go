package relay

import "sync"

// heads charges the headers of HTTP/1.1 requests while they come, webHeads times: as they came, and as the
// http.Handler's server has them. It stops when the http.Handler has the request, which is charged otherwise from then
// on, and gives all back when the request is over.
type heads struct {
	mu      sync.Mutex
	busy    bool // the http.Handler has a request
	read    int64
	charged int64
}

// came charges n bytes more that were read, if they are headers. connFree of them are covered by connCost.
func (h *heads) came(of *hold, n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy {
		return true
	}
	h.read += int64(n)
	more := webHeads*max(h.read-connFree/webHeads, 0) - h.charged
	if more <= 0 {
		return true
	}
	if !of.add(more) {
		return false
	}
	h.charged += more
	return true
}

func (h *heads) handled() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy = true
}

// over is called when a request is.
func (h *heads) over(of *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	of.add(-h.charged)
	h.busy, h.read, h.charged = false, 0, 0
}
