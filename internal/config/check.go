package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/registry"
)

// The functions below return the problem of a value, or "".

// checkListen accepts an address for net.Listen: host:port, each of which may be left to the system. A network as the
// host stands for this machine's address in it.
func checkListen(v string) string {
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return fmt.Sprintf("%q is not an address to listen on; write host:port, as in \":8080\" or \"127.0.0.1:8080\"", v)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Sprintf("port %q must be a number from 0 to 65535 (0: any free port)", port)
	}
	if _, err := netip.ParsePrefix(host); err != nil && host != "" && !isHost(host) {
		return fmt.Sprintf("host %q is neither an IP address, nor a host name, nor a network as in "+
			"\"10.0.7.0/24:8081\"", host)
	}
	return ""
}

func checkBackend(v string) string {
	if registry.IsName(v) {
		if _, err := registry.ParseName(v); err != nil {
			return err.Error()
		}
		return ""
	}
	return checkHostPort(v, "TLS is switched on by the fleet's tls field")
}

// checkHostPort accepts an address to connect to.
func checkHostPort(v, secure string) string {
	if scheme, _, ok := strings.Cut(v, "://"); ok {
		return fmt.Sprintf("write host:port without %q; %s", scheme+"://", secure)
	}
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return fmt.Sprintf("%q is not an address; write host:port, as in \"10.0.0.7:50051\"", v)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Sprintf("port %q must be a number from 1 to 65535", port)
	}
	if host == "" {
		return fmt.Sprintf("the host is missing; for this machine write \"127.0.0.1:%s\"", port)
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		return fmt.Sprintf("%s is not an address to connect to; for this machine write \"127.0.0.1:%s\"", host, port)
	}
	if !isHost(host) {
		return fmt.Sprintf("host %q is neither an IP address nor a host name", host)
	}
	return ""
}

// checkCapability accepts labels of host names.
func checkCapability(v string) string {
	if !call.IsLabel(v) {
		return fmt.Sprintf("%q is not a capability id; it has 1 to 63 lower-case letters, digits and hyphens, "+
			"and no hyphen at either end", v)
	}
	return ""
}

func checkDomain(v string) string {
	if !call.IsHostName(v) || strings.Contains(v, "_") {
		return fmt.Sprintf("%q is not a domain; write a name without scheme, port and wildcard, as in caps.example.com", v)
	}
	return ""
}

// checkZone accepts words, to detect typing errors early.
func checkZone(v string) string {
	if !call.IsZone(v) {
		return fmt.Sprintf("%q is not a zone; it has 1 to 63 letters, digits, hyphens, dots and underscores, as "+
			"in eu-west-1a", v)
	}
	return ""
}

// checkTool accepts the name of a tool, or "*" for all.
func checkTool(v string) string {
	if v != "*" && (len(v) > 128 || strings.ContainsFunc(v,
		func(r rune) bool { return r <= ' ' || r == '*' || r == 0x7f })) {
		return fmt.Sprintf("%q is not a tool; write a name without blanks, as in get_forecast, or \"*\" for all", v)
	}
	return ""
}

// checkServerName accepts names that a certificate can have.
func checkServerName(v string) string {
	if !isHost(v) {
		return fmt.Sprintf("%q is neither an IP address nor a host name", v)
	}
	return ""
}

// checkService accepts the full name of a protobuf service.
func checkService(v string) string {
	if !call.IsService(v) {
		return fmt.Sprintf("%q is not a gRPC service; write package.Service without the method, as in "+
			"grpc.testing.TestService", v)
	}
	return ""
}

func isHost(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || call.IsHostName(host)
}

// checkMethod accepts a method of a protobuf service, or all of one.
func checkMethod(v string) string {
	service, method, _ := strings.Cut(v, "/")
	if _, _, ok := call.SplitPath("/" + v); !ok && (method != "*" || !call.IsService(service)) {
		return fmt.Sprintf("%q is not a gRPC method; write package.Service/Method, or package.Service/* for all "+
			"of a service", v)
	}
	if method == "*" && strings.HasPrefix(service, "selu.capability.") {
		return fmt.Sprintf("%q would include methods that no policy covers; name each further method of %s", v,
			service)
	}
	return ""
}
