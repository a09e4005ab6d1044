package registry

import (
	"cmp"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/call"
)

// Source is the name of a member's source.
type Source string

// The sources of a Registry.
const (
	DNS   Source = "dns"          // a dns:/// entry of the configuration
	Lease Source = "registration" // a registration
)

// Compare orders sources by precedence, which counts if several name a backend: DNS, then the others by name, then
// registrations, which alone are not named by the configuration.
func (s Source) Compare(o Source) int {
	return cmp.Or(cmp.Compare(s.rank(), o.rank()), strings.Compare(string(s), string(o)))
}

func (s Source) rank() int {
	switch s {
	case DNS:
		return 0
	case Lease:
		return 2
	}
	return 1
}

// Member is a backend from one of the sources.
type Member struct {
	Capability    string
	Addr          string       // ip:port, IPv6 in brackets, or with Protocol a URL
	Protocol      string       // of a fleet whose backends are URLs; "": of any other fleet
	ServerName    string       // the named host, which its certificate must match, unless the fleet has another name
	Weight        int          // share of calls, 0 to 10000; 0: no new calls
	Zone          string       // "": none
	Session       string       // not empty: reserves the backend for this session
	Tenant        string       // the tenant of Session; "" without tenants
	Dialect       call.Dialect // Auto: the fleet's
	MaxConcurrent int          // concurrent calls of all replicas; 0: no limit of its own
	Manifest      Sum          // of its capability, if it may apply; its text is Registry.Manifest
	Source        Source
}

// Merge returns the members of several sources, sorted by capability and address, each pair of these once.
func Merge(sources ...[]Member) []Member {
	all := slices.Concat(sources...)
	if !slices.IsSortedFunc(all, compare) {
		slices.SortFunc(all, compare)
	}
	return slices.CompactFunc(all, func(a, b Member) bool { return a.Capability == b.Capability && a.Addr == b.Addr })
}

// Find returns the member of a capability with an address, in members as Merge returns them.
func Find(merged []Member, capability, addr string) (m Member, ok bool) {
	i, ok := slices.BinarySearchFunc(merged, capability, func(m Member, capability string) int {
		return cmp.Or(strings.Compare(m.Capability, capability), strings.Compare(m.Addr, addr))
	})
	if !ok {
		return m, false
	}
	return merged[i], true
}

// compare orders members by capability, then address, then source.
func compare(a, b Member) int {
	return cmp.Or(strings.Compare(a.Capability, b.Capability), strings.Compare(a.Addr, b.Addr),
		a.Source.Compare(b.Source), strings.Compare(a.ServerName, b.ServerName),
		strings.Compare(a.Session, b.Session), strings.Compare(a.Tenant, b.Tenant))
}
