package clientaddr

import (
	"net/netip"
	"strings"
)

// Headers in which proxies send client addresses.
const (
	XForwardedFor = "x-forwarded-for"
	Forwarded     = "forwarded" // RFC 7239
)

// Header returns the configured header, in lower case.
func (r *Resolver) Header() string { return r.cfg.Load().Header }

// Client returns the client of a request that arrived from peer: the last address that is not a trusted
// proxy's. The argument list has all values of Header. If a proxy names no address, the client is that proxy.
func (r *Resolver) Client(peer netip.Addr, list string) netip.Addr {
	c := r.cfg.Load()
	client := peer
	for hops := 1; hops <= c.Hops && list != "" && c.trusts(client); {
		at := lastComma(list, c.Header == Forwarded)
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

// lastComma returns the index of the comma before the last element of a list, or -1. With quotes, a comma in a quoted
// string separates nothing (RFC 7239 §4). The list is read from its end, as its last element is the last proxy's own:
// quotes in the elements before it, which a client can choose, do not matter.
func lastComma(list string, quotes bool) int {
	quoted := false
	for i := len(list) - 1; i >= 0; i-- {
		switch c := list[i]; {
		case c == '"' && quotes && !(quoted && escaped(list[:i])):
			quoted = !quoted
		case c == ',' && !quoted:
			return i
		}
	}
	return -1
}

// escaped reports whether the next byte after text in a quoted string is escaped.
func escaped(text string) bool { return (len(text)-len(strings.TrimRight(text, `\`)))%2 == 1 }

// forParam returns the node of a Forwarded element's parameter for; "" unless it occurs once.
func forParam(element string) (node string) {
	for more := true; more; {
		var part string
		part, element, more = cutParam(element)
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

// cutParam cuts an element at its first semicolon outside of quoted strings.
func cutParam(element string) (param, rest string, more bool) {
	quoted := false
	for i := 0; i < len(element); i++ {
		switch c := element[i]; {
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++
		case c == ';' && !quoted:
			return element[:i], element[i+1:], true
		}
	}
	return element, "", false
}

// parseNode parses an IPv4 or IPv6 address, with or without brackets and a port.
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
