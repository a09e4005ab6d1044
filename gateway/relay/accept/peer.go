package accept

import (
	"crypto/tls"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Peer is the client of a connection. It is the same for the life of the connection.
type Peer struct {
	Addr     net.Addr             // of the client; may differ from the socket's because of Config.Origin
	Local    net.Addr             // address that the client has connected to; nil means the process itself
	TLS      *tls.ConnectionState // nil means cleartext
	Internal bool                 // the process itself, without a connection
	Port     *Port                // port of the connection; nil means the process itself
	Value    any                  // the result of Config.OnConnect

	network       netip.Prefix // network under which the connection counts; invalid means none
	unknown       bool         // counts as one of an unknown network; guarded by connLimits.mu
	authenticated atomic.Bool  // see Server.Authenticated
	evictable     *evictable   // see Limits.Evict; under connLimits.mu
	assigned      atomic.Bool  // see SetAccount
	memory        Reservation  // for the fixed cost of the connection
	once          sync.Once
	text          string // of Addr, see RemoteAddr
}

// RemoteAddr returns the address in the form of http.Request.RemoteAddr.
func (p *Peer) RemoteAddr() string {
	p.once.Do(func() {
		if p.Addr != nil {
			p.text = p.Addr.String()
		}
	})
	return p.text
}

// SetAccount charges the connection to another account, if that has room. Only the first call has an effect.
func (p *Peer) SetAccount(a Account) {
	if a != nil && !p.Internal && !p.assigned.Load() && !p.assigned.Swap(true) {
		p.memory.move(a)
	}
}
