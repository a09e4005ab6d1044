package registry

import (
	"cmp"
	"strings"

	"github.com/capgate/capgate/internal/call"
)

// Source says where a member comes from.
type Source uint8

// The sources. Where both name a backend, DNS goes first: the configuration asked for it.
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

// Member is a backend that DNS or a registration names.
type Member struct {
	Capability    string
	Addr          string       // ip:port, IPv6 in brackets
	ServerName    string       // the host that was named: what its certificate must be for, where the fleet says nothing else
	Weight        int          // share of calls, 0 to 10000; 0: no new calls
	Zone          string       // "" nowhere
	Session       string       // not empty: it serves this session alone
	Tenant        string       // whose session that is; "" in a gateway without tenants
	Dialect       call.Dialect // Auto: as the fleet has it
	MaxConcurrent int          // calls at once, over all replicas; 0: no limit of its own
	Manifest      Sum          // that it brings, and that may count; its text is Registry.Manifest
	Source        Source
}

// compare orders members by capability, then address, then source.
func compare(a, b Member) int {
	return cmp.Or(strings.Compare(a.Capability, b.Capability), strings.Compare(a.Addr, b.Addr),
		cmp.Compare(a.Source, b.Source), strings.Compare(a.ServerName, b.ServerName), strings.Compare(a.Session, b.Session), strings.Compare(a.Tenant, b.Tenant))
}
