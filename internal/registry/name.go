package registry

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/capgate/capgate/internal/call"
)

// scheme is the prefix of entries that are resolved with DNS.
const scheme = "dns:"

// Name is a DNS query.
type Name struct {
	Host string // with a trailing dot the resolver ignores its search list
	Port uint16 // of every address; 0: Host has SRV records with their own ports
}

// IsName reports whether an entry is meant as a Name, and not as host:port.
func IsName(entry string) bool { return strings.HasPrefix(entry, scheme) }

// ParseName parses dns:///host:port, or dns:///_service._proto.host for SRV records. Its errors name the right
// form.
func ParseName(entry string) (Name, error) {
	rest, ok := strings.CutPrefix(entry, scheme+"//")
	if !ok {
		return Name{}, fmt.Errorf(
			"%q is not a name for DNS; write dns:///host:port, or dns:///_grpc._tcp.host for SRV records", entry)
	}
	server, name, ok := strings.Cut(rest, "/")
	switch {
	case !ok:
		return Name{}, fmt.Errorf("write three slashes, as in dns:///%s", rest)
	case server != "":
		return Name{}, fmt.Errorf(
			"a server for one name is not possible; write dns:///%s and name the server in dns.server", name)
	case strings.HasPrefix(name, "_"):
		return parseSRV(name)
	}
	host, port, err := net.SplitHostPort(name)
	if err != nil {
		return Name{}, fmt.Errorf("%q has no port; write dns:///host:port, or dns:///_grpc._tcp.host for SRV records",
			name)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return Name{}, fmt.Errorf("%s is an address already; write it without dns:///", host)
	}
	if !call.IsHostName(host) {
		return Name{}, fmt.Errorf("host %q is not a host name", host)
	}
	n, err := parsePort(port)
	return Name{Host: host, Port: n}, err
}

func parseSRV(name string) (Name, error) {
	if strings.Contains(name, ":") {
		return Name{}, errors.New("SRV records have ports of their own; write no port, as in dns:///_grpc._tcp.host")
	}
	service, rest, _ := strings.Cut(name, ".")
	proto, host, _ := strings.Cut(rest, ".")
	if len(service) < 2 || len(proto) < 2 || proto[0] != '_' || !call.IsHostName(service[1:]) ||
		!call.IsHostName(proto[1:]) || !call.IsHostName(host) {
		return Name{}, fmt.Errorf(
			"%q is not a name of SRV records; write dns:///_service._proto.host, as in "+
				"dns:///_grpc._tcp.weather.tools.svc", name)
	}
	return Name{Host: name}, nil
}

// serverName returns the host that certificates must match. For SRV records it is the queried domain: the
// targets come from DNS, which is not authenticated (RFC 6125 §6.5).
func (n Name) serverName() string {
	host := strings.TrimSuffix(n.Host, ".")
	if n.Port == 0 {
		_, host, _ = strings.Cut(host, ".")
		_, host, _ = strings.Cut(host, ".")
	}
	return host
}

func (n Name) String() string {
	if n.Port == 0 {
		return scheme + "///" + n.Host
	}
	return scheme + "///" + net.JoinHostPort(n.Host, strconv.Itoa(int(n.Port)))
}

// parsePort parses a port to connect to.
func parsePort(s string) (uint16, error) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("port %q must be a number from 1 to 65535", s)
	}
	return uint16(n), nil
}
