package relay

import (
	"errors"
	"sync"
)

// The bytes of an open connection. They are charged before anything of it is read, or the connection is refused.
// These are upper bounds; buffers that may grow beyond them are charged as they grow.
const (
	// connCost covers the sockets' structures, two goroutines' stacks, HPACK's tables of 4 KiB each with their entries,
	// or the buffers of 4 KiB of an HTTP/1.1 connection, and connFree.
	connCost = 32 << 10
	// connFree is what of a connection's input and output is covered by connCost.
	connFree = 16 << 10
	// copiedCost is for connections that are not read into the shard's buffer, as those over TLS: a buffer of
	// connReadBuffer, a goroutine that writes, and of TLS the record that is read, which crypto/tls keeps in a buffer of
	// twice its 16 KiB, and its keys.
	copiedCost = 80 << 10
	// handshakeCost covers keys and messages of a TLS handshake; a client's bytes beyond handshakeFree are charged
	// handshakeCopies times, as crypto/tls gathers them in buffers that it doubles.
	handshakeCost   = 32 << 10
	handshakeFree   = 8 << 10
	handshakeCopies = 3
)

var errNoRoom = errors.New("its owner holds as much memory as its share allows")

// hold is what a connection has of an Account. It is safe for concurrent use.
type hold struct {
	mu      sync.Mutex
	account Account // nil: nothing is bounded
	n       int64
}

// begin holds n bytes of an account, or says that there is no room for them.
func (h *hold) begin(account Account, n int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if account != nil && !account.Reserve(n) {
		return false
	}
	h.account, h.n = account, n
	return true
}

// add holds n bytes more, or nothing if there is no room for them. Fewer always succeeds.
func (h *hold) add(n int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.account == nil:
		return true
	case n < 0:
		h.account.Release(-n)
	case !h.account.Reserve(n):
		return false
	}
	h.n += n
	return true
}

// move has another account hold the same, if it has room.
func (h *hold) move(to Account) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.account == nil || to == nil || h.account == to || !to.Reserve(h.n) {
		return
	}
	h.account.Release(h.n)
	h.account = to
}

// end gives all of it back.
func (h *hold) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.account != nil {
		h.account.Release(h.n)
	}
	h.account, h.n = nil, 0
}

// Adopt has a group hold what a client's connection takes, of which a call or request is the group's. The first that
// adopts a connection keeps it.
func (r *Relay) Adopt(p *Peer, g *Group) {
	if g.account != nil && !p.Internal && !p.adopted.Load() && !p.adopted.Swap(true) {
		p.hold.move(g.account)
	}
}

// accountOf is whose a connection is.
func (r *Relay) accountOf(p *pool, who *Peer) Account {
	switch cfg := &r.cfg; {
	case p != nil:
		return p.upstream.account()
	case cfg.Account != nil:
		return cfg.Account(who)
	}
	return nil
}

// account is who has connections to the upstream.
func (u *Upstream) account() Account {
	if of := u.relay.cfg.UpstreamAccount; of != nil {
		return of(u.cfg.Addr)
	}
	return nil
}

// cost is what a connection to the upstream takes.
func (u *Upstream) cost() int64 {
	if u.tls.Load() != nil {
		return connCost + copiedCost
	}
	return connCost
}
