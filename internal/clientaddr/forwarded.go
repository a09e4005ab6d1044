package clientaddr

import (
	"net/netip"
	"strings"
)

// Headers in which proxies say who a request comes from.
const (
	XForwardedFor = "x-forwarded-for"
	Forwarded     = "forwarded" // RFC 7239
)

// Header is the one in which proxies say so, in lower case.
func (r *Resolver) Header() string { return r.cfg.Load().Header }

// Client is who a request comes from that the peer at that address brought: the nearest who is
// not a trusted proxy, by what those say. list is all values of Header. Where a proxy does
// not name an address, the client is who says so.
func (r *Resolver) Client(peer netip.Addr, list string) netip.Addr {
	c := r.cfg.Load()
	client := peer
	for hops := 1; hops <= c.Hops && list != "" && c.trusts(client); {
		// Only what is behind the last comma is the proxy's own, whatever quotes there are
		// before it: addresses have no comma.
		at := strings.LastIndexByte(list, ',')
		item := strings.Trim(list[at+1:], " \t")
		list = list[:max(at, 0)]
		if item == "" {
			continue
		}
		if c.Header == Forwarded {
			item = forParam(item)
		}
		said, ok := parseNode(item)
		if !ok {
			break
		}
		client = said
		hops++
	}
	return client
}

// forParam is the node of a Forwarded element's parameter for; "" if it is not there once.
func forParam(element string) (node string) {
	for part := range strings.SplitSeq(element, ";") {
		name, value, ok := strings.Cut(strings.Trim(part, " \t"), "=")
		if !ok || !strings.EqualFold(name, "for") {
			continue
		}
		if node != "" {
			return ""
		}
		node = strings.TrimSuffix(strings.TrimPrefix(value, `"`), `"`)
	}
	return node
}

// parseNode reads an address: of IPv6 with or without brackets, and of either with or without
// a port.
func parseNode(text string) (netip.Addr, bool) {
	if len(text) > len("[ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255]:65535") {
		return netip.Addr{}, false
	}
	host := text
	if inside, ok := strings.CutPrefix(text, "["); ok {
		end := strings.IndexByte(inside, ']')
		if end < 0 {
			return netip.Addr{}, false
		}
		host = inside[:end]
	} else if colon := strings.IndexByte(text, ':'); colon > 0 && colon == strings.LastIndexByte(text, ':') {
		host = text[:colon]
	}
	a, err := netip.ParseAddr(host)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, false
	}
	return a.Unmap(), true
}
