package config

import (
	"cmp"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/internal/lib/tlsfiles"
	"github.com/capgate/capgate/internal/tenant"
)

// Listener is an address for clients besides the public one.
type Listener struct {
	// host:port as listen; or unix: and the absolute path of a socket, as in unix:/run/capgate/weather.sock.
	Address string `yaml:"address" kind:"listener" required:"" unique:"true"`
	// Of holds the fixed identity of its calls.
	Of tenant.Listener `yaml:",inline"`
	// TLS at this address. Default cleartext.
	TLS tlsfiles.Server `yaml:"tls" restart:"switch"`
	// true: callers without a credential may come from other machines. Every program that reaches the address is then
	// its tenant.
	Open bool `yaml:"open" default:"false"`
	// Permissions of a unix socket, four octal digits. Default 0600: the gateway's own user.
	Mode fs.FileMode `yaml:"mode" kind:"mode"`
}

// defaultMode is the mode of sockets.
const defaultMode fs.FileMode = 0o600

// maxListeners bounds the listeners of a process.
const maxListeners = 64

// unixScheme begins the addresses of unix sockets.
const unixScheme = "unix:"

// Socket returns the path of the listener's unix socket; "": it has none.
func (l *Listener) Socket() string {
	path, ok := strings.CutPrefix(l.Address, unixScheme)
	if !ok {
		return ""
	}
	return path
}

// Check checks fields that depend on each other, and sets their defaults.
func (l *Listener) Check(at strictyaml.At) {
	l.Of.Name = l.Address
	if at.Has("mode") && l.Address != "" && l.Socket() == "" {
		at.Fail("mode", "is only for the socket of an address that begins with unix:")
	}
	if l.Mode == 0 {
		l.Mode = defaultMode
	}
	l.Of.Check(at)
}

// Anonymous reports whether callers need no credential at a listener.
func (c *Config) Anonymous(l *Listener) bool { return !c.Multi || l.Of.Tenant != "" }

// IsLocal reports whether only programs of this machine reach a listener.
func (l *Listener) IsLocal() bool { return l.Socket() != "" || isLoopback(l.Address) }

// checkListeners checks the listeners against the rest of the file.
func (c *Config) checkListeners(at strictyaml.At) {
	if len(c.Listeners) > maxListeners {
		at.Fail("", "there are %d listeners; at most %d are allowed", len(c.Listeners), maxListeners)
	}
	for i := range c.Listeners {
		l, here := &c.Listeners[i], at.Item(i)
		if l.Address == "" {
			continue
		}
		c.checkAddress(i, here)
		c.checkListenerTenant(l, here)
		c.checkListenerCapability(l, here)
		switch anonymous := c.Anonymous(l); {
		case anonymous && !l.IsLocal() && !l.Open:
			here.Fail("address", "%s is not on loopback, and callers need no credential: every program that reaches "+
				"it would be %s; use 127.0.0.1 or a unix socket, or say open: true", l.Address, c.Everybody(l))
		case !anonymous && l.Open:
			here.Fail("open", "has no effect: callers need a credential, as no tenant is named")
		case !anonymous && l.Of.Asserts != 0, !c.Multi && l.Of.Asserts != 0:
			here.Fail("asserts", "is only for callers of a tenant without a credential, and needs tenant")
		case anonymous && l.Of.Scopes.Any(needCredential):
			here.Fail("scopes", "%s: callers without a credential cannot have that; use the public port for it",
				l.Of.Scopes&needCredential)
		}
	}
}

// Everybody names the identity of callers without a credential at a listener.
func (c *Config) Everybody(l *Listener) string {
	who := "the tenant " + cmp.Or(l.Of.Tenant, tenant.Default)
	if l.Of.User != "" {
		who += ", on behalf of the user " + l.Of.User
	}
	if l.Of.Agent != "" {
		who += ", with the agent " + l.Of.Agent
	}
	if l.TLS.ClientCAFile != "" && !l.TLS.Optional {
		who += ", if it has a certificate of " + l.TLS.ClientCAFile
	}
	return who
}

// needCredential are scopes that no caller without a credential has.
const needCredential = tenant.Approve | tenant.Policy | tenant.Admin

// checkAddress compares an address with those of the other ports.
func (c *Config) checkAddress(i int, at strictyaml.At) {
	own := c.Listeners[i].Address
	for _, other := range []struct{ field, address string }{{"listen", c.Listen}, {"admin", c.Admin}} {
		if clash(own, other.address) {
			at.Fail("address", "%s is also the address of %s; each port needs its own address", own, other.field)
		}
	}
	for j := range c.Listeners[:i] {
		if before := c.Listeners[j].Address; before != own && clash(own, before) {
			at.Fail("address", "%s is also the address of listeners[%d]; each port needs its own address", own, j)
		}
	}
}

func (c *Config) checkListenerTenant(l *Listener, at strictyaml.At) {
	switch known := c.tenantOf(l.Of.Tenant) != nil; {
	case l.Of.Tenant == "":
	case !c.Multi:
		at.Fail("tenant", noTenants)
	case !known && !c.Identity.Stored:
		at.Fail("tenant", "there is no tenant %s", l.Of.Tenant)
	}
}

// checkListenerCapability checks that the capability of a listener has a fleet, or may get one, and that its calls
// could be answered.
func (c *Config) checkListenerCapability(l *Listener, at strictyaml.At) {
	if l.Of.Capability == "" {
		return
	}
	fleet := slices.IndexFunc(c.Fleets, func(f Fleet) bool { return f.Capability == l.Of.Capability })
	registered := slices.ContainsFunc(c.Registration.Capabilities, func(pattern string) bool {
		ok, err := path.Match(pattern, l.Of.Capability)
		return ok && err == nil
	})
	switch of := c.tenantOf(l.Of.Tenant); {
	case fleet < 0 && !registered:
		at.Fail("capability", "there is no fleet %s, and registration.capabilities does not permit one",
			l.Of.Capability)
	case fleet >= 0 && l.Of.Dialect != call.Auto && !c.listsTools(c.Fleets[fleet].ProtocolName):
		at.Fail("dialect", "fleet %s has protocol: %s, which has no dialects", l.Of.Capability,
			c.Fleets[fleet].ProtocolName)
	case of != nil && !of.Capabilities.Include(l.Of.Capability):
		at.Fail("capability", "tenant %s is not granted %s by its capabilities", l.Of.Tenant, l.Of.Capability)
	}
}

// tenantOf returns a tenant of the file; nil: it has no such tenant.
func (c *Config) tenantOf(id string) *tenant.Declared {
	for i := range c.Tenants {
		if id != "" && c.Tenants[i].ID == id {
			return &c.Tenants[i]
		}
	}
	return nil
}

// clash reports whether two addresses cannot be listened on at once, as far as their texts tell.
func clash(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	switch {
	case strings.HasPrefix(a, unixScheme) || strings.HasPrefix(b, unixScheme) || errA != nil || errB != nil:
		return filepath.Clean(a) == filepath.Clean(b)
	case portA != portB || portA == "0":
		return false
	}
	return strings.EqualFold(hostA, hostB) || isEverywhere(hostA) || isEverywhere(hostB)
}

// isEverywhere reports whether a host means all addresses of this machine.
func isEverywhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// isLoopback reports whether an address to listen on is surely on loopback.
func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	if network, err := netip.ParsePrefix(host); err == nil {
		bits := 8
		if network.Addr().Is6() {
			bits = 128
		}
		return network.Addr().IsLoopback() && network.Bits() >= bits
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

// maxSocket is the longest path of a unix socket that every system takes, in bytes.
const maxSocket = 103

// checkListener accepts the address of a listener.
func checkListener(v string) string {
	socket, ok := strings.CutPrefix(v, unixScheme)
	switch {
	case !ok:
		return checkListen(v)
	case !strings.HasPrefix(socket, "/") || strings.HasPrefix(socket, "//") || socket != filepath.Clean(socket) ||
		socket == "/":
		return fmt.Sprintf("%q is not the address of a socket; write unix: and an absolute path, as in "+
			"unix:/run/capgate/weather.sock", v)
	case len(socket) > maxSocket || strings.ContainsFunc(socket, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Sprintf("the path of a socket has at most %d bytes, and no control characters", maxSocket)
	}
	return ""
}

// checkIdentifier accepts what a header can say without loss.
func checkIdentifier(v string) string {
	const most = 256
	ok := v != "" && len(v) <= most && strings.TrimSpace(v) == v &&
		!strings.ContainsFunc(v, func(r rune) bool { return r < ' ' || r > '~' })
	return unless(ok, "must have 1 to %d printable ASCII characters, and no space at either end", most)
}

// parseMode parses the permissions of a socket.
func parseMode(s string) (any, string) {
	mode, err := strconv.ParseUint(s, 8, 32)
	ok := err == nil && len(s) == 4 && s[0] == '0' && mode&0o600 == 0o600
	return fs.FileMode(mode), unless(ok, "%q is not a mode; write four octal digits, as in 0660, with 6 or 7 for the "+
		"gateway's own user", s)
}
