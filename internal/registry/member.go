package registry

import (
	"cmp"
	"strings"

	"github.com/capgate/capgate/internal/call"
)

// Source is the origin of a member.
type Source uint8

// The sources. If both name a backend, DNS has precedence: the configuration names it.
const (
	DNS   Source = iota // a dns:/// entry of the configuration
	Lease               // a registration
)

func (s Source) String() string {
	if s == DNS {
		return "dns"
	}
	return "registration"
}

// Member is a backend from DNS or a registration.
type Member struct {
	Capability    string
	Addr          string       // ip:port, IPv6 in brackets
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

// compare orders members by capability, then address, then source.
func compare(a, b Member) int {
	return cmp.Or(strings.Compare(a.Capability, b.Capability), strings.Compare(a.Addr, b.Addr),
		cmp.Compare(a.Source, b.Source), strings.Compare(a.ServerName, b.ServerName),
		strings.Compare(a.Session, b.Session), strings.Compare(a.Tenant, b.Tenant))
}
