package questions

import (
	"cmp"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/idna"

	"github.com/capgate/capgate/internal/lib/hosts"
)

// Own holds the addresses of the gateway. A server must not lead a user there: the pages of the gateway approve calls,
// and look the same after any link. A nil Own has no addresses.
type Own struct {
	names *hosts.Names
	ports []uint16
}

// NewOwn returns the addresses with these host names, which may have patterns as in hosts.New, and with the ports of
// these authorities (HOST:PORT). A port may be http or https; an authority without a port has no effect.
func NewOwn(names, authorities []string) *Own {
	o := &Own{}
	ascii := make([]string, 0, len(names))
	for _, name := range names {
		if text, err := idna.Lookup.ToASCII(name); err == nil { // the form in which browsers send it
			name = text
		}
		ascii = append(ascii, canonical(name))
	}
	o.names = hosts.New(ascii)
	for _, authority := range authorities {
		if _, port, err := net.SplitHostPort(authority); err == nil {
			o.ports = append(o.ports, portOf(port))
		}
	}
	return o
}

// Has reports whether a URL that checkURL accepts leads to the gateway, as far as its host shows: it has one of the
// names, or that of authority, at which a request has reached the gateway. An address, or this machine, leads there
// with any port of the gateway, because the gateway cannot know all its addresses.
func (o *Own) Has(u *url.URL, authority string) bool {
	at, host := url.URL{Host: authority}, canonical(u.Hostname())
	port := portOf(cmp.Or(u.Port(), u.Scheme))
	_, err := netip.ParseAddr(host)
	local := isLocal(host)
	switch {
	case err != nil && !local:
		return host == canonical(at.Hostname()) || o != nil && o.names.Lists(host)
	case port == portOf(at.Port()), at.Port() == "" && (port == portOf("http") || port == portOf("https")):
		return true
	}
	return o != nil && (slices.Contains(o.ports, port) || !local && o.names.Lists(host))
}

// portOf returns the number of a port, which may be the name of its scheme; 0 means that it is not valid.
func portOf(port string) uint16 {
	switch port {
	case "http":
		return 80
	case "https":
		return 443
	}
	n, _ := strconv.ParseUint(port, 10, 16) // 0 on error
	return uint16(n)
}

// canonical returns a host as it is compared: in lower case, without the root's dot, and an address in one notation.
func canonical(host string) string {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return host
}

// isLocal reports whether a canonical host is the machine of the client.
func isLocal(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.IsLoopback() || ip.IsUnspecified()) || host == "localhost" ||
		strings.HasSuffix(host, ".localhost")
}

// isPlain reports whether each reader takes a host for the same one: an address in its usual notation, or an ASCII
// name. Browsers map other characters, and read numbers such as 2130706433 or 0x7f.1 as addresses.
func isPlain(host string) bool {
	host = strings.TrimSuffix(host, ".")
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Zone() == ""
	}
	if strings.Contains(host, "*") || strings.ContainsFunc(host, func(r rune) bool { return r > '~' }) ||
		!hosts.Valid(host) {
		return false
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	return strings.Trim(last, "0123456789") != "" && !strings.HasPrefix(strings.ToLower(last), "0x")
}
