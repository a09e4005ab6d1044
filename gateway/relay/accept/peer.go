package accept

import (
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Peer is the client of a connection. It stays the same as long as the connection lives.
type Peer struct {
	Addr     net.Addr             // the client's, which Config.Origin may know better than the socket
	Local    net.Addr             // the address that the client has connected to; nil means the process itself
	TLS      *tls.ConnectionState // nil means cleartext
	Internal bool                 // the process itself, which has no connection
	Port     *Port                // that accepted the connection; nil means the process itself
	Value    any                  // the result of Config.OnConnect

	network       netip.Prefix // that the connection counts to; not valid: none
	unknown       bool         // it counts as one of an unknown network, under connLimits.mu
	authenticated atomic.Bool  // see Server.Authenticated
	evictable     *evictable   // see Limits.Evict; under connLimits.mu
	assigned      atomic.Bool  // see SetAccount
	memory        Reservation  // of what the connection takes
	once          sync.Once
	text          string // of Addr, see RemoteAddr
}

// RemoteAddr returns the address as http.Request.RemoteAddr has it.
func (p *Peer) RemoteAddr() string {
	p.once.Do(func() {
		if p.Addr != nil {
			p.text = p.Addr.String()
		}
	})
	return p.text
}

// SetAccount has another account hold what the connection takes, if it has room. The first account that is set stays.
func (p *Peer) SetAccount(a Account) {
	if a != nil && !p.Internal && !p.assigned.Load() && !p.assigned.Swap(true) {
		p.memory.move(a)
	}
}
