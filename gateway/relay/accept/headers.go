package accept

import "sync"

// headerBytes charges the headers of HTTP/1.1 requests while they are read, HeaderCopies times: as received, and as
// the http.Handler's server holds them. It stops when the http.Handler receives the request, which is then charged
// otherwise, and releases the charge when the request has ended.
type headerBytes struct {
	mu      sync.Mutex
	busy    bool // the http.Handler serves a request
	read    int64
	charged int64
}

// add charges n more bytes that were read, if they are headers. FreeBytes of them are covered by ConnBytes.
func (h *headerBytes) add(memory *Reservation, n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy {
		return true
	}
	h.read += int64(n)
	more := HeaderCopies*max(h.read-FreeBytes/HeaderCopies, 0) - h.charged
	if more <= 0 {
		return true
	}
	if !memory.add(more) {
		return false
	}
	h.charged += more
	return true
}

func (h *headerBytes) handled() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.busy = true
}

// release is called at the end of a request.
func (h *headerBytes) release(memory *Reservation) {
	h.mu.Lock()
	defer h.mu.Unlock()
	memory.add(-h.charged)
	h.busy, h.read, h.charged = false, 0, 0
}
