package accept

import (
	"errors"
	"sync"
)

// Account bounds the bytes of memory of one owner. It is safe for concurrent use, takes no lock and does not block.
type Account interface {
	Reserve(n int64) bool // takes n more, or nothing
	Release(n int64)      // gives n back
}

// The bytes of an open connection. They are charged before anything of it is read, or the connection is refused.
// These are upper bounds; buffers that may grow beyond them are charged as they grow.
const (
	// ConnBytes covers the sockets' structures, two goroutines' stacks, HPACK's tables of 4 KiB each with their
	// entries, or the buffers of 4 KiB of an HTTP/1.1 connection, and FreeBytes.
	ConnBytes = 32 << 10
	// FreeBytes is the part of a connection's input and output that ConnBytes covers.
	FreeBytes = 16 << 10
	// CopiedBytes is for connections that have read buffers of their own, as those over TLS: a buffer of 32 KiB, a
	// goroutine that writes, and of TLS the record that is read, which crypto/tls keeps in a buffer of twice its 16
	// KiB, and its keys.
	CopiedBytes = 80 << 10
	// handshakeBytes covers keys and messages of a TLS handshake; a client's bytes beyond handshakeFree are charged
	// handshakeCopies times, as crypto/tls gathers them in buffers that it doubles.
	handshakeBytes  = 32 << 10
	handshakeFree   = 8 << 10
	handshakeCopies = 3

	// RequestBytes covers a goroutine of the http.Handler's server with its buffers.
	RequestBytes = 32 << 10
	// HeaderCopies is how often the headers of a request are in memory for the http.Handler.
	HeaderCopies = 3
)

// ErrNoMemory is the error of a connection for which an Account has no room.
var ErrNoMemory = errors.New("its owner holds as much memory as its share allows")

// Reservation is what a connection has reserved of an Account. It is safe for concurrent use.
type Reservation struct {
	mu      sync.Mutex
	account Account // nil means nothing is bounded
	n       int64
}

// Begin reserves n bytes of an account. It reports whether there was room.
func (r *Reservation) Begin(account Account, n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if account != nil && !account.Reserve(n) {
		return false
	}
	r.account, r.n = account, n
	return true
}

// add reserves n bytes more, or nothing if there is no room for them. Fewer always succeeds.
func (r *Reservation) add(n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.account == nil:
		return true
	case n < 0:
		r.account.Release(-n)
	case !r.account.Reserve(n):
		return false
	}
	r.n += n
	return true
}

// move has another account hold the same, if it has room.
func (r *Reservation) move(to Account) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.account == nil || to == nil || r.account == to || !to.Reserve(r.n) {
		return
	}
	r.account.Release(r.n)
	r.account = to
}

// End releases all.
func (r *Reservation) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.account != nil {
		r.account.Release(r.n)
	}
	r.account, r.n = nil, 0
}
