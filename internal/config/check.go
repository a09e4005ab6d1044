package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/hosts"
	"github.com/capgate/capgate/internal/lib/redisurl"
	"github.com/capgate/capgate/internal/lib/weburl"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/tenant"
)

// The functions below return the problem of a value, or "".

// checkListen accepts an address for net.Listen: host:port, each of which may be left to the system. A network as the
// host stands for this machine's address in it.
func checkListen(v string) string {
	host, port, err := net.SplitHostPort(v)
	if err != nil {
		return fmt.Sprintf("%q is not an address to listen on; write host:port, as in \":8080\" or \"127.0.0.1:8080\"",
			v)
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
	if isURL(v) { // which protocols have them is checked later
		return checkBackendURL(v)
	}
	return checkHostPort(v, "TLS is switched on by the fleet's tls field")
}

// isURL reports whether a backend is reached over HTTP.
func isURL(v string) bool {
	scheme, _, ok := strings.Cut(v, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// checkBackendURL accepts a URL without credentials, which would be in logs and metrics.
func checkBackendURL(v string) string {
	u, err := weburl.ParseBare(v, "https://tools.example.com/mcp")
	switch {
	case err != nil:
		return err.Error()
	case len(v) > 512:
		return "is longer than 512 bytes"
	case !isHost(u.Hostname()):
		return fmt.Sprintf("host %q is neither an IP address nor a host name", u.Hostname())
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && ip.IsUnspecified() {
		return fmt.Sprintf("%s is not an address to connect to; for this machine write 127.0.0.1", u.Hostname())
	}
	return ""
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
		return fmt.Sprintf("%q is not a domain; write a name without scheme, port and wildcard, as in caps.example.com",
			v)
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

var toolPrefix = regexp.MustCompile(`^[A-Za-z0-9.-]+(_[A-Za-z0-9.-]+)*$`)

// checkToolPrefix accepts what MCP permits in names of tools. A name is split at its first two underscores.
func checkToolPrefix(v string) string {
	if len(v) > 63 || !toolPrefix.MatchString(v) {
		return fmt.Sprintf("%.64q is not a prefix of tools; it has 1 to 63 letters, digits, hyphens, dots and "+
			"underscores, no underscore at either end, and no two in a row", v)
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

// parsePublicURL returns a URL in the one form that clients compare (RFC 3986 §6.2): without capitals in scheme and
// host, the scheme's own port, and slashes that separate nothing. A problem does not repeat the URL, which may contain
// a password.
func parsePublicURL(v string) (any, string) {
	u, err := weburl.ParseBare(v, "https://tools.example.com")
	if err != nil {
		return v, err.Error()
	}
	host := strings.TrimSuffix(strings.ToLower(u.Host), ":")
	host = strings.TrimSuffix(host, map[string]string{"http": ":80", "https": ":443"}[u.Scheme])
	return u.Scheme + "://" + host + strings.TrimSuffix(path.Clean("/"+u.EscapedPath()), "/"), ""
}

func checkCertificateName(v string) string {
	name := strings.TrimPrefix(v, "*.")
	if !call.IsHostName(name) || !strings.Contains(name, ".") {
		return fmt.Sprintf("%q is not a name; write one as in orchestrator.example.org, or *.example.org", v)
	}
	return ""
}

func checkOrigin(v string) string {
	u, err := url.Parse(strings.Replace(v, "://*.", "://any.", 1))
	switch {
	case v == "*":
		return ""
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "",
		u.Scheme+"://"+u.Host != strings.Replace(v, "://*.", "://any.", 1),
		v != strings.ToLower(v), strings.Contains(u.Host, "*"):
		return fmt.Sprintf("%q is not an origin; write https://app.example.com, https://*.example.com or *", v)
	}
	return ""
}

var headerName = regexp.MustCompile(`^[A-Za-z0-9!#$%&'*+.^_|~-]{1,64}$`)

func checkHeaderName(v string) string {
	if v == "*" || !headerName.MatchString(v) {
		return fmt.Sprintf("%q is not the name of a header", v)
	}
	return ""
}

func checkHost(v string) string {
	if !hosts.Valid(v) {
		return fmt.Sprintf("%q is not the name of a host; write capgate.example.com, *.example.com, an address or *, "+
			"without scheme and port", v)
	}
	return ""
}

// CheckRedis returns the problem of a Redis address, or "". It does not repeat the address, which may contain a
// password.
func CheckRedis(v string) string {
	if _, err := redisurl.Parse(v); err != nil {
		return "the address " + err.Error()
	}
	return ""
}

// checkReplica returns the problem of a replica's name, or "".
func checkReplica(v string) string {
	switch {
	case v == "" || len(v) > 128:
		return "a replica's id has 1 to 128 bytes"
	case strings.ContainsFunc(v, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		return "a replica's id has no spaces"
	}
	return ""
}

func checkShield(v string) string {
	switch {
	case v == NoShield:
		return "none is reserved for fleets without a shield; choose another name"
	case !call.IsZone(v):
		return fmt.Sprintf("%q is not a name; it has 1 to 63 letters, digits, hyphens, dots and underscores", v)
	}
	return ""
}

func checkShieldAddress(v string) string {
	return checkHostPort(v, "TLS is switched on by the shield's tls field, and its HTTP form has a url instead")
}

// checkShieldURL does not repeat the URL, which may contain a password.
func checkShieldURL(v string) string {
	u, err := weburl.Parse(v, "http://shield:9090/evaluate")
	switch {
	case err != nil:
		return err.Error()
	case u.Path == "" || u.Path == "/":
		return "lacks the path; Shield's own server has /evaluate"
	}
	return ""
}

func checkTenant(v string) string {
	return unless(call.IsZone(v) && v != "-",
		"%q is not a tenant; it has 1 to 63 letters, digits, hyphens, dots and underscores, and is not a hyphen alone",
		v)
}

func checkKeyID(v string) string {
	return unless(tenant.IsKeyID(v), "is not the id of a key; it has 16 characters, as capgate keys new prints it")
}

// checkCollector accepts host:port or a URL. It does not repeat a URL, which may contain a password.
func checkCollector(v string) string {
	if !strings.Contains(v, "://") {
		return checkHostPort(v, "")
	}
	if _, err := weburl.ParseBare(v, "http://collector:4318"); err != nil {
		return err.Error() + "; write host:port for OTLP over gRPC, and put credentials into headers_file"
	}
	return ""
}

func unless(ok bool, format string, args ...any) string {
	if ok {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

func checkName(v string) string {
	return unless(call.IsZone(v), "%q is not a name; it has 1 to 63 letters, digits, hyphens, dots and underscores", v)
}

func checkSPIFFE(v string) string {
	return unless(tenant.IsSPIFFEPattern(v), "%q is not a SPIFFE ID; write spiffe://, the trust domain in lower case "+
		"and a path, in which * matches one whole segment", v)
}

func checkDNSServer(v string) string {
	a, err := netip.ParseAddrPort(v)
	return unless(err == nil && a.Port() != 0, "%q is not a server; write ip:port, as in 10.0.0.10:53", v)
}

func checkCapabilityOrAll(v string) string {
	if v == "*" {
		return ""
	}
	return checkCapability(v)
}

func checkPattern(v string) string {
	_, err := path.Match(v, "")
	return unless(err == nil, "%q is not a pattern; write a capability's name, in which * matches any text", v)
}

func checkTenantOrAll(v string) string {
	if v == "*" {
		return ""
	}
	return checkTenant(v)
}

// checkGroup accepts the name of a group as issuers give it.
func checkGroup(v string) string {
	if !tenant.IsGroup(v) {
		return "a group's name has 1 to 256 bytes and no control characters"
	}
	return ""
}
