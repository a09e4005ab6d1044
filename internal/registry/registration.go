package registry

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/capgate/capgate/internal/call"
)

const (
	// maxPinned bounds the addresses of one registration.
	maxPinned = 16
	// maxSession and maxLease bound ids, in bytes.
	maxSession = 512
	maxLease   = 64
	// maxConcurrent is the largest limit of calls at once that a backend may name.
	maxConcurrent = 100_000
)

// Registration is a backend that registered itself: a lease that its holder renews. Capability and Addr identify
// it.
type Registration struct {
	Capability    string
	Addr          string           // host:port as its holder names it
	Pinned        []netip.AddrPort // the resolved addresses, which are dialled, sorted
	Weight        int              // see Member
	Zone          string
	Session       string
	Tenant        string
	Dialect       call.Dialect
	MaxConcurrent int
	Manifest      Manifest      // of its capability; the zero value: none
	TTL           time.Duration // lifetime without a renewal
	Lease         string        // secret of the holder
}

// Key identifies a registration.
type Key struct{ Capability, Addr string }

// Key returns the registration's key.
func (g *Registration) Key() Key { return Key{g.Capability, g.Addr} }

// same reports whether two registrations have the same backends.
func (g *Registration) same(o *Registration) bool {
	return slices.Equal(g.Pinned, o.Pinned) && g.Key() == o.Key() && g.Weight == o.Weight && g.Zone == o.Zone &&
		g.Session == o.Session && g.Tenant == o.Tenant &&
		g.Dialect == o.Dialect && g.MaxConcurrent == o.MaxConcurrent && g.Manifest.Sum == o.Manifest.Sum &&
		g.TTL == o.TTL && g.Lease == o.Lease
}

// members appends the backends of a registration, with their manifest.
func (g *Registration) members(to []Member, manifest Sum) []Member {
	host, _, _ := net.SplitHostPort(g.Addr)
	for _, addr := range g.Pinned {
		to = append(to, Member{
			Capability: g.Capability, Addr: addr.String(), ServerName: strings.TrimSuffix(host, "."), Weight: g.Weight,
			Zone:    g.Zone,
			Session: g.Session, Tenant: g.Tenant, Dialect: g.Dialect, MaxConcurrent: g.MaxConcurrent,
			Manifest: manifest, Source: Lease,
		})
	}
	return to
}

// Rules restrict registrations. The zero value allows none.
type Rules struct {
	Permissions
	Fleets         map[string]bool // capabilities that have a fleet
	MinTTL, MaxTTL time.Duration   // of a lease; default 1 s and 1 h
	MaxPerFleet    int             // maximum number of registrations of a capability; default a tenth of Max
	Tenants        bool            // there are tenants: a session belongs to one
}

// Permissions determines what backends that register themselves may do.
type Permissions struct {
	// Addresses that are permitted although they are loopback, link-local, cloud metadata, multicast or reserved.
	Allow []netip.Prefix `yaml:"allow"`
	// Patterns, in which * matches any text, of capabilities without a fleet that may be registered, and then get a
	// fleet with defaults.
	Capabilities []string `yaml:"capabilities" kind:"pattern"`
	// Policy of these capabilities, as of a fleet.
	Policy call.Verdict `yaml:"policy" default:"block"`
	// true: a backend may send the manifest of its capability, with its tools and recommended policies, for fleets that
	// name none; false: a backend with a manifest is rejected.
	Manifests bool `yaml:"manifests" default:"false"`
	// Maximum number of all registrations. A capability may have a tenth of them.
	Max int `yaml:"max" min:"0" max:"100000" default:"10000"`
}

// ttls returns the bounds of a lease.
func (r *Rules) ttls() (least, most time.Duration) {
	return cmp.Or(r.MinTTL, time.Second), cmp.Or(r.MaxTTL, maxTTL)
}

// perFleet returns the maximum number of registrations of a capability.
func (r *Rules) perFleet() int { return cmp.Or(r.MaxPerFleet, (r.Max+9)/10) }

// serves reports whether backends of a capability may register.
func (r *Rules) serves(capability string) bool {
	if r.Fleets[capability] {
		return true
	}
	return slices.ContainsFunc(r.Capabilities, func(pattern string) bool {
		ok, err := path.Match(pattern, capability)
		return ok && err == nil
	})
}

// check refuses an invalid registration, before its host is resolved.
func (r *Rules) check(g *Registration) *call.Refusal {
	least, most := r.ttls()
	switch {
	case !call.IsLabel(g.Capability):
		return invalid("capability", "it has 1 to 63 lower-case letters, digits and hyphens, and no hyphen at either "+
			"end")
	case !r.serves(g.Capability):
		return &call.Refusal{Kind: call.NotFound, Reason: "CAPABILITY_UNKNOWN",
			Message: fmt.Sprintf("no fleet is configured for %s, and registration.capabilities allows none",
				g.Capability),
			Metadata: map[string]string{"capability": g.Capability}}
	case g.TTL < least || g.TTL > most:
		return invalid("ttl", fmt.Sprintf("it must be from %s to %s", least, most))
	case g.Weight < 0 || g.Weight > maxWeight:
		return invalid("weight", fmt.Sprintf("it must be from 0 to %d", maxWeight))
	case g.MaxConcurrent < 0 || g.MaxConcurrent > maxConcurrent:
		return invalid("max_concurrent", fmt.Sprintf("it must be from 0 to %d", maxConcurrent))
	case g.Zone != "" && !call.IsZone(g.Zone):
		return invalid("zone", "it has 1 to 63 letters, digits, hyphens, dots and underscores")
	case !isID(g.Session, maxSession):
		return invalid("session", fmt.Sprintf("it has at most %d bytes, all of them printable", maxSession))
	case !isID(g.Lease, maxLease):
		return invalid("lease", fmt.Sprintf("it has at most %d bytes, all of them printable", maxLease))
	}
	if wrong := r.checkTenant(g); wrong != "" {
		return invalid("tenant", wrong)
	}
	return nil
}

// checkTenant returns the problem of the tenant of a session. The tenant need not exist yet.
func (r *Rules) checkTenant(g *Registration) string {
	switch {
	case g.Tenant == "" && (g.Session == "" || !r.Tenants):
		return ""
	case g.Tenant == "":
		return "required: the tenant of the session; tenants may have sessions with the same id"
	case g.Session == "":
		return "it is the tenant of the session, so it needs session"
	case !r.Tenants:
		return "this gateway has no tenants; leave it out"
	case !call.IsZone(g.Tenant):
		return "it has 1 to 63 letters, digits, hyphens, dots and underscores"
	}
	return ""
}

func invalid(field, text string) *call.Refusal {
	return call.InvalidField("REGISTRATION_INVALID", field, text)
}

func isID(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// splitAddr splits an address. One of the two hosts is set.
func splitAddr(addr string) (ip netip.Addr, name string, port uint16, refusal *call.Refusal) {
	const want = "write host:port, as in 10.0.0.7:50051, [2001:db8::7]:50051 or weather-0.tools.svc:50051"
	host, p, err := net.SplitHostPort(addr)
	if err != nil || host == "" {
		return ip, "", 0, invalid("addr", want)
	}
	if port, err = parsePort(p); err != nil {
		return ip, "", 0, invalid("addr", err.Error())
	}
	if ip, err = netip.ParseAddr(host); err == nil {
		if ip.Zone() != "" {
			return ip, "", 0, invalid("addr", "a zone like %eth0 means something on one machine only")
		}
		return ip.Unmap(), "", port, nil
	}
	if !call.IsHostName(host) {
		return ip, "", 0, invalid("addr", want)
	}
	return netip.Addr{}, host, port, nil
}

// pin resolves the host of a registration and checks every address.
func (r *Rules) pin(ctx context.Context, resolver Resolver, g *Registration) *call.Refusal {
	ip, name, port, refusal := splitAddr(g.Addr)
	if refusal != nil {
		return refusal
	}
	addrs := []netip.Addr{ip}
	if name != "" {
		if err := checkName(name); err != nil {
			return notPermitted(g.Addr, err)
		}
		var err error
		if addrs, err = lookupHost(ctx, resolver, name); err != nil || len(addrs) == 0 {
			return unresolved(name, err)
		}
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.Compact(addrs)
	if len(addrs) > maxPinned {
		return invalid("addr", fmt.Sprintf("%s has %d addresses; more than %d are not possible", name, len(addrs),
			maxPinned))
	}
	g.Pinned = nil
	for _, a := range addrs {
		if err := r.CheckAddr(a); err != nil {
			return notPermitted(g.Addr, err)
		}
		g.Pinned = append(g.Pinned, netip.AddrPortFrom(a, port))
	}
	if name == "" { // a canonical spelling of the address
		g.Addr = netip.AddrPortFrom(ip, port).String()
	}
	return nil
}

func notPermitted(addr string, why error) *call.Refusal {
	return &call.Refusal{Kind: call.PermissionDenied, Reason: "ADDRESS_FORBIDDEN",
		Message:  fmt.Sprintf("%s may not be registered: %v; registration.allow can permit it", addr, why),
		Metadata: map[string]string{"addr": addr}}
}

func unresolved(name string, err error) *call.Refusal {
	if err == nil {
		err = errNoAddress
	}
	return &call.Refusal{Kind: call.Unavailable, Reason: "ADDRESS_UNRESOLVED",
		Message:  fmt.Sprintf("%s cannot be resolved here: %v", name, err),
		Metadata: map[string]string{"host": name}, RetryAfter: time.Second}
}

// trusted reports whether a registration from the store is one that this replica would have accepted: the store is
// trusted no more than a client.
func (r *Rules) trusted(g *Registration) bool {
	ip, name, port, refusal := splitAddr(g.Addr)
	if refusal != nil || name != "" && checkName(name) != nil || len(g.Pinned) == 0 || len(g.Pinned) > maxPinned {
		return false
	}
	for _, p := range g.Pinned {
		if p.Port() != port || !p.Addr().IsValid() || p.Addr().Is4In6() || p.Addr().Zone() != "" ||
			r.CheckAddr(p.Addr()) != nil || name == "" && p.Addr() != ip {
			return false
		}
	}
	lax := *r // the accepting replica has agreed to the limits
	lax.MinTTL, lax.MaxTTL = 1, maxTTL
	lax.Fleets = map[string]bool{g.Capability: true}
	return lax.check(g) == nil
}

// maxTTL is the longest lease of any replica.
const maxTTL = time.Hour
