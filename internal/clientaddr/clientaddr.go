package clientaddr

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
)

// Protocol is which PROXY protocol trusted proxies speak.
type Protocol uint8

// The protocols.
const (
	Off Protocol = iota
	V1
	V2
)

// Config says who is believed. The zero value believes nobody.
type Config struct {
	Trusted []netip.Prefix // of the proxies' own addresses
	// how many proxies a call may have come through, those of Header and the one that connects; default 16
	Hops     int
	Header   string   // what proxies say addresses in, XForwardedFor or Forwarded; default the former
	Protocol Protocol // what each connection of a trusted proxy begins with
}

const defaultHops = 16

// Resolver is who is believed now. It may be used from any goroutine.
type Resolver struct {
	cfg      atomic.Pointer[Config]
	rejected atomic.Uint64
}

// New makes an Edge.
func New(cfg Config) *Resolver {
	r := &Resolver{}
	r.Replace(cfg)
	return r
}

// Replace believes others from now on. Whose a connection is stays as it was found.
func (r *Resolver) Replace(cfg Config) {
	if cfg.Hops == 0 {
		cfg.Hops = defaultHops
	}
	if cfg.Header == "" {
		cfg.Header = XForwardedFor
	}
	r.cfg.Store(&cfg)
}

// Rejected is how many connections of trusted proxies had no PROXY header, or a bad one.
func (r *Resolver) Rejected() uint64 { return r.rejected.Load() }

// ConnAddr says whose a connection is. Of a trusted proxy it reads the PROXY header, and not a
// byte more; a deadline is for the caller to set.
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

// Trusts says whether what comes from an address is believed.
func (r *Resolver) Trusts(a netip.Addr) bool { return r.cfg.Load().trusts(a) }

func (c *Config) trusts(a netip.Addr) bool {
	for _, p := range c.Trusted {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// AddrOf is the IP address in a. It is not valid where there is none.
func AddrOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

var errShort = errors.New("it is cut off")
