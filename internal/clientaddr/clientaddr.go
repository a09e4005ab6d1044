package clientaddr

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
)

// Protocol is the PROXY protocol of trusted proxies.
type Protocol uint8

// The protocols.
const (
	Off Protocol = iota
	V1
	V2
)

// Config lists the trusted proxies. The zero value trusts none.
type Config struct {
	Trusted []netip.Prefix // addresses of the proxies
	// maximum number of proxies of a call, those of Header and the one that connects; default 16
	Hops     int
	Header   string   // header with client addresses, XForwardedFor or Forwarded; default the former
	Protocol Protocol // required at the beginning of each connection of a trusted proxy
}

const defaultHops = 16

// Resolver determines client addresses. It is safe for concurrent use.
type Resolver struct {
	cfg      atomic.Pointer[Config]
	rejected atomic.Uint64
}

// New returns a Resolver.
func New(cfg Config) *Resolver {
	r := &Resolver{}
	r.Replace(cfg)
	return r
}

// Replace replaces the configuration. The addresses of existing connections do not change.
func (r *Resolver) Replace(cfg Config) {
	if cfg.Hops == 0 {
		cfg.Hops = defaultHops
	}
	if cfg.Header == "" {
		cfg.Header = XForwardedFor
	}
	r.cfg.Store(&cfg)
}

// Rejected returns the number of connections of trusted proxies with a missing or invalid PROXY header.
func (r *Resolver) Rejected() uint64 { return r.rejected.Load() }

// ConnAddr returns the client address of a connection. If the peer is a trusted proxy, ConnAddr reads the PROXY
// header, and not a byte more. The caller sets a deadline.
func (r *Resolver) ConnAddr(nc net.Conn) (net.Addr, error) {
	c := r.cfg.Load()
	if c.Protocol == Off || !c.trusts(AddrOf(nc.RemoteAddr())) {
		return nc.RemoteAddr(), nil
	}
	source, err := ReadProxy(nc, c.Protocol)
	if err != nil {
		r.rejected.Add(1)
		return nil, fmt.Errorf("PROXY header: %w", err)
	}
	if !source.IsValid() {
		return nc.RemoteAddr(), nil
	}
	return net.TCPAddrFromAddrPort(source), nil
}

// Trusts reports whether an address is a trusted proxy's.
func (r *Resolver) Trusts(a netip.Addr) bool { return r.cfg.Load().trusts(a) }

func (c *Config) trusts(a netip.Addr) bool {
	for _, p := range c.Trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// AddrOf returns the IP address in a, or an invalid one if there is none.
func AddrOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

var errShort = errors.New("it is truncated")
