package accept

import (
	"errors"
	"sync"
)

// Account limits the memory of an owner, in bytes. It is safe for concurrent use, takes no lock and does not block.
type Account interface {
	Reserve(n int64) bool // takes n more, or returns false
	Release(n int64)      // returns n
}

// Memory of an open connection, in bytes. It is charged before anything is read, or the connection is rejected. These
// are upper bounds; buffers that may exceed them are charged as they grow.
const (
	// ConnBytes covers what idle connections over HTTP/2 were measured to take each, 7 KiB, and 12 KiB when HPACK's
	// tables are full: the socket's structures, a goroutine's stack, the tables; and FreeBytes.
	ConnBytes = 12<<10 + FreeBytes
	// FreeBytes is the part of a connection's input and output that ConnBytes covers.
	FreeBytes = 8 << 10
	// HTTP1Bytes is what a connection over HTTP/1.1 takes more once net/http has it, measured 8 KiB: buffers of 4 KiB
	// each. Before, it takes them for a request.
	HTTP1Bytes = 8 << 10
	// TLSBytes is the additional memory of a client's connection over TLS, measured 15 KiB: the keys and the state of
	// crypto/tls; and up to 14 KiB in which crypto/tls collects records of up to recordFree.
	TLSBytes = 32 << 10
	// recordFree is the size of a record that TLSBytes covers. A longer one is charged recordCopies times, because
	// crypto/tls keeps a buffer for the longest record, which it doubles.
	recordFree   = 4 << 10
	recordCopies = 2
	// CopiedBytes is for connections to backends over TLS: the keys, and up to 48 KiB in which crypto/tls collects
	// records. Those that are no sockets have a read buffer of 32 KiB and a writer goroutine.
	CopiedBytes = 80 << 10
	// handshakeBytes covers keys and messages of a TLS handshake; a client's bytes beyond handshakeFree are charged
	// handshakeCopies times, because crypto/tls collects them in buffers that it doubles.
	handshakeBytes  = 32 << 10
	handshakeFree   = 8 << 10
	handshakeCopies = 3

	// RequestBytes covers a goroutine of the http.Handler's server with its buffers.
	RequestBytes = 32 << 10
	// HeaderCopies is the number of copies of a request's headers for the http.Handler.
	HeaderCopies = 3
)

// ErrNoMemory is the error of a connection whose Account has no room.
var ErrNoMemory = errors.New("its owner has used its share of the memory")

// Reservation is a connection's reservation with an Account. It is safe for concurrent use.
type Reservation struct {
	mu      sync.Mutex
	account Account // nil means no limit
	n       int64
}

// Begin reserves n bytes of an account, and reports whether there was room.
func (r *Reservation) Begin(account Account, n int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if account != nil && !account.Reserve(n) {
		return false
	}
	r.account, r.n = account, n
	return true
}

// add reserves n more bytes, or returns false if there is no room. A negative n always succeeds.
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

// move transfers the reservation to another account, if that has room.
func (r *Reservation) move(to Account) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.account == nil || to == nil || r.account == to || !to.Reserve(r.n) {
		return
	}
	r.account.Release(r.n)
	r.account = to
}

// End releases the reservation.
func (r *Reservation) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.account != nil {
		r.account.Release(r.n)
	}
	r.account, r.n = nil, 0
}
