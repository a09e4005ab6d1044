package clientaddr

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/capgate/capgate/internal/lib/strictyaml"
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
	// Addresses of the proxies, as in [10.0.0.0/8].
	Trusted []netip.Prefix `yaml:"from" required:"" min:"1"`
	// Maximum number of proxies that a call has passed.
	Hops int `yaml:"hops" min:"1" max:"16" default:"16"`
	// Header of the proxies with the client address.
	Header string `yaml:"header" enum:"x-forwarded-for,forwarded" default:"x-forwarded-for"`

	Protocol Protocol // required at the beginning of each connection of a trusted proxy
}

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

// Replace replaces the configuration, after its defaults. The addresses of existing connections do not change.
func (r *Resolver) Replace(cfg Config) {
	strictyaml.Fill(&cfg)
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
