// Package hosts knows which names a port answers to, so that DNS rebinding gains nothing.
//
// A page of another site may give its own name the address of this port. To the browser both are one site then: it
// lets the page send requests and read the answers. What it cannot forge is the name, which comes as Host or
// :authority. A port that needs no credential therefore answers known names alone. Programs other than browsers send
// whatever name they like; this is no defence against them.
//
//	names := hosts.New([]string{"capgate.example.com", "*.internal"})
//	names.Answer("capgate.example.com:8080", nil) // true
package hosts

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Names are those that a port answers to, besides those of loopback.
type Names struct {
	exact    []string
	suffixes []string // with the dot that they begin with
	any      bool
	literals bool
}

// New makes Names of names and addresses, without ports. "*.example.com" is every name below example.com, "*" every
// name. Names are compared without regard to case and to the root's dot.
func New(all []string) *Names {
	n := &Names{}
	for _, name := range all {
		name = normal(name)
		suffix, below := strings.CutPrefix(name, "*")
		switch {
		case name == "*":
			n.any = true
		case below:
			n.suffixes = append(n.suffixes, suffix)
		default:
			n.exact = append(n.exact, name)
		}
	}
	return n
}

// WithAddresses makes the port answer every IP address. No page has an address that is not its own for a name.
func (n *Names) WithAddresses() *Names {
	n.literals = true
	return n
}

// Answer tells whether the port answers an authority: "localhost" and what is below it, addresses of loopback, and
// own, the address that the connection came in on, are always answered. So is "", which no browser sends.
func (n *Names) Answer(authority string, own net.Addr) bool {
	if authority == "" || n.any {
		return true
	}
	host, ok := hostOf(authority)
	if !ok {
		return false
	}
	host = normal(host)
	if ip, err := netip.ParseAddr(host); err == nil {
		ip = ip.Unmap().WithZone("")
		return n.literals || ip.IsLoopback() || ip == addrOf(own) || slices.Contains(n.exact, ip.String())
	}
	below := func(suffix string) bool { return len(host) > len(suffix) && strings.HasSuffix(host, suffix) }
	return host == "localhost" || below(".localhost") || slices.Contains(n.exact, host) ||
		slices.ContainsFunc(n.suffixes, below)
}

// Valid tells whether New understands a name.
func Valid(name string) bool {
	rest := strings.TrimPrefix(normal(name), "*.")
	if name == "*" {
		return true
	}
	if _, err := netip.ParseAddr(rest); err == nil {
		return !strings.HasPrefix(name, "*")
	}
	if rest == "" || len(rest) > 253 {
		return false
	}
	for label := range strings.SplitSeq(rest, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// hostOf cuts the port off an authority.
func hostOf(authority string) (string, bool) {
	if strings.ContainsAny(authority, "@/?#%\\ ") {
		return "", false
	}
	if inside, is6 := strings.CutPrefix(authority, "["); is6 {
		host, rest, closed := strings.Cut(inside, "]")
		return host, closed && (rest == "" || rest[0] == ':' && isPort(rest[1:]))
	}
	host, port, _ := strings.Cut(authority, ":")
	return host, isPort(port)
}

func isPort(s string) bool { return strings.Trim(s, "0123456789") == "" }

func normal(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

func addrOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}
