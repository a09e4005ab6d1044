package gateway

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/lib/recovery"
	"github.com/capgate/capgate/internal/tenant"
)

// clientConn has the data of a client's connection. It is the Value of its relay.Peer.
type clientConn struct {
	at     *tenant.Listener // nil: the public port
	addr   netip.Addr
	text   string       // of addr; "" if that is not valid
	prefix string       // of addr, the account of calls that are no tenant's
	peer   *tenant.Peer // of a verified certificate; nil: there is none
}

// newClientConn returns the clientConn of a connection. It is relay.Config.OnConnect.
func newClientConn(p *relay.Peer) any {
	v := &clientConn{addr: clientaddr.AddrOf(p.Addr)}
	if p.Port != nil {
		v.at, _ = p.Port.Value.(*tenant.Listener)
	}
	v.prefix = clientaddr.NetworkName(v.addr)
	if v.addr.IsValid() {
		v.text = v.addr.String()
	}
	if p.TLS != nil && len(p.TLS.VerifiedChains) > 0 {
		v.peer = tenant.PeerOf(p.TLS.VerifiedChains[0][0])
	}
	return v
}

// loopback is Clients.Exempt where nothing else is said.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// networks returns accept.Limits.Network. A trusted proxy brings the connections of many, and what is exempt may be one.
func networks(e *clientaddr.Resolver, exempt []netip.Prefix) func(net.Addr) (netip.Prefix, bool) {
	if exempt == nil {
		exempt = loopback
	}
	return func(addr net.Addr) (netip.Prefix, bool) {
		a := clientaddr.AddrOf(addr)
		if !a.IsValid() || e.Trusts(a) || slices.ContainsFunc(exempt, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return netip.Prefix{}, false
		}
		return clientaddr.Network(a), true
	}
}

// reservedPart is the part of the connections that only networks may have of which a client has shown a credential
// lately: one for so many.
const reservedPart = 8

// authenticated has a connection's network be known by a credential that was found good.
func (h *handler) authenticated(p *relay.Peer) {
	if p != nil && !p.Internal && h.callers.NeedsAt(p.Value.(*clientConn).at) {
		h.relay.Authenticated(p)
	}
}

// request has the headers that resolveClient reads.
type request interface {
	Header(name string) (string, bool)
	AppendHeader(b []byte, name string) []byte
}

// resolveClient returns the client of a request. If a trusted proxy names a client other than the connection's, client
// is its address, and o.Address is not set to it yet. resolveClient overwrites scratch.
func (h *handler) resolveClient(p *relay.Peer, r request, scratch []byte) (o filter.Client, client netip.Addr) {
	v := p.Value.(*clientConn)
	o.Address, o.At, o.Peer = v.text, v.at, v.peer
	if !h.cfg.Clients.Addr.Trusts(v.addr) {
		return o, netip.Addr{}
	}
	o.Told = true
	o.Proto, _ = r.Header(clientaddr.XForwardedProto)
	o.Host, _ = r.Header(clientaddr.XForwardedHost)
	o.Port, _ = r.Header(clientaddr.XForwardedPort)
	if client = h.cfg.Clients.Addr.Client(v.addr,
		filter.View(r.AppendHeader(scratch, h.cfg.Clients.Addr.Header()))); client == v.addr {
		return o, netip.Addr{}
	}
	return o, client
}

// setClient sets the client of a call. Its strings, other than the address, are parts of the headers.
func (h *handler) setClient(s *relay.Stream, t *callState) {
	p := s.Peer()
	if p.Internal {
		return
	}
	o, client := h.resolveClient(p, s, t.Scratch())
	if client.IsValid() {
		var text [maxAddr]byte
		o.Address = t.Keep(filter.View(client.AppendTo(text[:0])))
	}
	t.Client = o
}

// maxAddr is the longest IP address.
const maxAddr = len("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")

// setWebClient sets the client of a request over HTTP/2, which clientOf returns to the front doors. It is
// relay.Config.Web.
func (h *handler) setWebClient(s *relay.Stream) {
	o, client := h.resolveClient(s.Peer(), s, nil)
	o.Drawn = h.trace.Draw(s)
	s.Value = cloneClient(o, client)
	recovery.Round("identity", func() { h.chargeWeb(s, &o) })
}

// chargeWeb charges the memory that the relay holds for a request to its tenant, if that is known from memory.
func (h *handler) chargeWeb(s *relay.Stream, from *filter.Client) {
	claim, refusal := h.callers.Credentials(readOnly{s}, from)
	if refusal != nil {
		return
	}
	if who, known, refusal := h.callers.Lookup(claim); known && refusal == nil {
		h.authenticated(s.Peer())
		s.Charge(h.bandwidth.GroupOf(who.Settings)) // without room the relay refuses it
	}
}

// readOnly is a stream whose headers are not dropped.
type readOnly struct{ *relay.Stream }

// DropHeader drops nothing: the front doors get the whole request.
func (readOnly) DropHeader(string) {}

type webHeaders http.Header

func (w webHeaders) Header(name string) (string, bool) {
	v := w[canonical(name)]
	if len(v) == 0 {
		return "", false
	}
	return v[0], true
}

func (w webHeaders) AppendHeader(b []byte, name string) []byte {
	return append(b, strings.Join(http.Header(w).Values(name), ",")...)
}

// cloneClient returns a copy of o that outlives the request's headers, with client as its address if that is valid.
func cloneClient(o filter.Client, client netip.Addr) *filter.Client {
	if client.IsValid() {
		o.Address = client.String()
	}
	o.Proto, o.Host, o.Port = strings.Clone(o.Proto), strings.Clone(o.Host), strings.Clone(o.Port)
	return &o
}
