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

// Edge is who is believed now. It may be used from any goroutine.
type Edge struct {
	cfg     atomic.Pointer[Config]
	refused atomic.Uint64
}

// New makes an Edge.
func New(cfg Config) *Edge {
	e := &Edge{}
	e.Replace(cfg)
	return e
}

// Replace believes others from now on. Whose a connection is stays as it was found.
func (e *Edge) Replace(cfg Config) {
	if cfg.Hops == 0 {
		cfg.Hops = defaultHops
	}
	if cfg.Header == "" {
		cfg.Header = XForwardedFor
	}
	e.cfg.Store(&cfg)
}

// Refused is how many connections of trusted proxies had no PROXY header, or a bad one.
func (e *Edge) Refused() uint64 { return e.refused.Load() }

// Origin says whose a connection is. Of a trusted proxy it reads the PROXY header, and not a
// byte more; a deadline is for the caller to set.
func (e *Edge) Origin(nc net.Conn) (net.Addr, error) {
	c := e.cfg.Load()
	if c.Protocol == Off || !c.trusts(AddrOf(nc.RemoteAddr())) {
		return nc.RemoteAddr(), nil
	}
	source, err := ReadProxy(nc, c.Protocol)
	if err != nil {
		e.refused.Add(1)
		return nil, fmt.Errorf("PROXY header: %w", err)
	}
	if !source.IsValid() {
		return nc.RemoteAddr(), nil
	}
	return net.TCPAddrFromAddrPort(source), nil
}

// Trusts says whether what comes from an address is believed.
func (e *Edge) Trusts(a netip.Addr) bool { return e.cfg.Load().trusts(a) }

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
