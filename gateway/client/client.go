// Package client resolves the client of a call or of an HTTP request: its address, which a trusted proxy may name, its
// certificate, and the port that it connected to.
package client

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/tenant"
)

// Conn holds the data of a client's connection. It is the Value of its relay.Peer.
type Conn struct {
	At     *tenant.Listener // nil means the public port
	Prefix string           // network of the address, which is charged until the tenant is known

	addr netip.Addr
	text string       // of addr; empty if it is not valid
	peer *tenant.Peer // of a verified certificate; nil means none

	proof *tenant.Proof // under the lock of the connection's shard; nil means that it has shown no API key
}

// New returns the Conn of a connection. It implements relay.Config.OnConnect.
func New(p *relay.Peer) any {
	c := &Conn{addr: clientaddr.AddrOf(p.Addr)}
	if p.Port != nil {
		c.At, _ = p.Port.Value.(*tenant.Listener)
	}
	c.Prefix = clientaddr.NetworkName(c.addr)
	if c.addr.IsValid() {
		c.text = c.addr.String()
	}
	if p.TLS != nil && len(p.TLS.VerifiedChains) > 0 {
		c.peer = tenant.PeerOf(p.TLS.VerifiedChains[0][0])
	}
	return c
}

// Of returns the Conn of a connection.
func Of(p *relay.Peer) *Conn { return p.Value.(*Conn) }

// Proof returns the proof of a connection. Only calls of that connection may use it, on its shard, which runs one of
// them at a time.
func Proof(p *relay.Peer) *tenant.Proof {
	if p.Internal {
		return nil
	}
	c := Of(p)
	if c.proof == nil {
		c.proof = new(tenant.Proof)
	}
	return c.proof
}

// Network returns the name of a client's network. For most requests the connection has it already. p may be nil.
func Network(p *relay.Peer, address string) string {
	if p != nil && Of(p).text == address {
		return Of(p).Prefix
	}
	return clientaddr.NetworkNameOf(address)
}

// loopback is the default exemption of Networks.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// Networks returns accept.Limits.Network. Trusted proxies are exempt, because they forward connections of many
// clients. If exempt is nil, loopback is exempt.
func Networks(r *clientaddr.Resolver, exempt []netip.Prefix) func(net.Addr) (netip.Prefix, bool) {
	if exempt == nil {
		exempt = loopback
	}
	return func(addr net.Addr) (netip.Prefix, bool) {
		a := clientaddr.AddrOf(addr)
		if !a.IsValid() || r.Trusts(a) || slices.ContainsFunc(exempt, func(p netip.Prefix) bool {
			return p.Contains(a)
		}) {
			return netip.Prefix{}, false
		}
		return clientaddr.Network(a), true
	}
}

// Headers is the part of a request that a trusted proxy may set.
type Headers interface {
	Header(name string) (string, bool)
	AppendHeader(b []byte, name string) []byte
}

// resolve sets the client of a request. If a trusted proxy names a client other than the connection's, other is its
// address, and o.Address is not yet set to it. resolve overwrites scratch.
func resolve(from *clientaddr.Resolver, p *relay.Peer, r Headers, scratch []byte, o *filter.Client,
	d *filter.ClientDetails) (other netip.Addr) {
	c := Of(p)
	o.Address, o.At, d.Peer = c.text, c.At, c.peer
	o.Unix = p.OnSocket()
	if !from.Trusts(c.addr) {
		return netip.Addr{}
	}
	d.Told = true
	d.Proto = forwarded(r, clientaddr.XForwardedProto)
	d.Host = forwarded(r, clientaddr.XForwardedHost)
	d.Port = forwarded(r, clientaddr.XForwardedPort)
	if other = from.Client(c.addr, filter.View(r.AppendHeader(scratch, from.Header()))); other == c.addr {
		return netip.Addr{}
	}
	return other
}

// maxForwarded is the maximum length of a value that is forwarded, in bytes. A name of a host has at most 255.
const maxForwarded = 1024

func forwarded(r Headers, name string) string {
	if v, _ := r.Header(name); len(v) <= maxForwarded {
		return v
	}
	return ""
}

// maxAddr is the maximum length of an IP address.
const maxAddr = len("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")

// Set sets the client of a call. Its strings outlive the headers: a call with an idempotency key continues after its
// client has left, and its attempts send them.
func Set(from *clientaddr.Resolver, s *relay.Stream, t *filter.Call) {
	p := s.Peer()
	if p.Internal {
		return
	}
	if other := resolve(from, p, s, t.Scratch(), &t.Client, &t.Details); other.IsValid() {
		var text [maxAddr]byte
		t.Client.Address = t.Keep(filter.View(other.AppendTo(text[:0])))
	}
	keep(t)
}

// keep copies the details of a call out of the request's headers.
func keep(t *filter.Call) {
	d := &t.Details
	d.Proto, d.Host, d.Port = t.Keep(d.Proto), t.Keep(d.Host), t.Keep(d.Port)
}

// Resolve returns the client of an HTTP request. Its strings outlive the headers.
func Resolve(from *clientaddr.Resolver, p *relay.Peer, r Headers) (o filter.Client, d filter.ClientDetails) {
	if other := resolve(from, p, r, nil, &o, &d); other.IsValid() {
		o.Address = other.String()
	}
	return o, clone(d)
}

// clone returns a copy of d that outlives the request's headers.
func clone(d filter.ClientDetails) filter.ClientDetails {
	d.Proto, d.Host, d.Port = strings.Clone(d.Proto), strings.Clone(d.Host), strings.Clone(d.Port)
	return d
}
