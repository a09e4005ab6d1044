package config

import (
	"net/netip"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// ClientLimits bounds the resources of one replica that clients use by their network: an IPv4 address, or a /64 of
// IPv6. It counts those that need no credential.
type ClientLimits struct {
	Connections int // connections: concurrent ones, 16 to 1000000; further ones wait in the backlog; default 16384
	// network_connections: of these, from one network; further ones are closed at once; default a quarter of connections
	NetworkConnections int
	// reserved_connections: of these, for networks that authenticated in the last hour; 0: none; default an eighth of
	// connections, and none if callers need no credential
	ReservedConnections int
	// network_handshakes: TLS handshakes of one network that wait for a processor; a further one ends the oldest; 1 to
	// 1000000; default 512
	NetworkHandshakes int
	// open_calls: concurrent calls that need no credential, such as Health/Watch and reflection; 1 to 1000000; default
	// 4096
	OpenCalls        int
	NetworkOpenCalls int // network_open_calls: of these, from one network; default 512, and no more than open_calls
	// connection_open_calls: of these, by one connection; default 100, and no more than network_open_calls
	ConnectionOpenCalls int

	// exempt: addresses whose networks have no bounds, besides trusted_proxies; default loopback; []: none
	Exempt []netip.Prefix
}

// Default fractions of the connections, as divisors.
const (
	networkPart  = 4
	reservedPart = 8
)

// unset stands for a number whose default is a fraction of another one.
const unset = -1

const mostClients = 1_000_000

func (p *parser) clientLimits(at strictyaml.Place) {
	c := &p.config.ClientLimits
	c.NetworkConnections, c.ReservedConnections, c.NetworkOpenCalls, c.ConnectionOpenCalls = unset, unset, unset, unset
	p.Mapping(at, map[string]strictyaml.Field{
		"connections":           p.Integer(&c.Connections, 16, mostClients),
		"network_connections":   p.Integer(&c.NetworkConnections, 1, mostClients),
		"reserved_connections":  p.Integer(&c.ReservedConnections, 0, mostClients),
		"network_handshakes":    p.Integer(&c.NetworkHandshakes, 1, mostClients),
		"open_calls":            p.Integer(&c.OpenCalls, 1, mostClients),
		"network_open_calls":    p.Integer(&c.NetworkOpenCalls, 1, mostClients),
		"connection_open_calls": p.Integer(&c.ConnectionOpenCalls, 1, mostClients),
		"exempt": func(at strictyaml.Place) {
			c.Exempt = nil
			p.List(p.prefix(&c.Exempt))(at)
		},
	})
	for _, part := range []struct {
		name, of  string
		is, whole int
	}{
		{"network_connections", "connections", c.NetworkConnections, c.Connections},
		{"reserved_connections", "connections", c.ReservedConnections, c.Connections - 1},
		{"network_open_calls", "open_calls", c.NetworkOpenCalls, c.OpenCalls},
		{"connection_open_calls", "open_calls", c.ConnectionOpenCalls, c.OpenCalls},
	} {
		if part.is > part.whole && part.is > 0 {
			p.Fail(at.Child(part.name), "%d is too many; %s allows %d of them", part.is, part.of, part.whole)
		}
	}
	c.derive()
}

// derive sets the unset limits to fractions of others.
func (c *ClientLimits) derive() {
	if c.NetworkConnections == unset {
		c.NetworkConnections = c.Connections / networkPart
	}
	if c.ReservedConnections == unset {
		c.ReservedConnections = c.Connections / reservedPart
	}
	if c.NetworkOpenCalls == unset {
		c.NetworkOpenCalls = min(512, c.OpenCalls)
	}
	if c.ConnectionOpenCalls == unset {
		c.ConnectionOpenCalls = min(100, c.NetworkOpenCalls)
	}
}

func defaultClientLimits() ClientLimits {
	c := ClientLimits{
		Connections: 16 << 10, NetworkConnections: unset, ReservedConnections: unset, NetworkHandshakes: 512,
		OpenCalls: 4096, NetworkOpenCalls: unset, ConnectionOpenCalls: unset,
		Exempt: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")},
	}
	c.derive()
	return c
}
