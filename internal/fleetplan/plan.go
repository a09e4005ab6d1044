// Package fleetplan derives what router, health, catalog and gateway have of fleets: from a configuration, the backends
// that DNS and registrations add to it, and the manifests that those announce.
package fleetplan

import (
	"cmp"
	"crypto/tls"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/gateway/upstream/protocols"
	"github.com/capgate/capgate/health"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/config"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/registry"
	"github.com/capgate/capgate/internal/settings"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/policy/catalog"
	"github.com/capgate/capgate/router"
)

// Plan has the settings of router, gateway and health that follow from a configuration and the current members.
type Plan struct {
	Routes router.Config
	Probes []health.Fleet
	Tools  map[string]catalog.Declaration // by capability
	Served []upstream.Fleet               // fleets that the process serves

	Shields map[string]string // by capability, the name of the one that judges its calls
	Names   map[string]string // by capability, the prefix of its tools over MCP; absent: its id

	secure map[string]*tls.Config // by capability
}

// Planner makes plans. Unchanged parts are the same slices and pointers as in its previous plan, so that users
// detect changes by comparing pointers.
type Planner struct {
	Ejected func(*router.Backend, router.Class, time.Duration)
	Limits  *router.Limits
	Others  upstream.Protocols // of backends that the process serves
	// Manifest returns an announced manifest; nil for one that is not known.
	Manifest func(registry.Sum) *manifest.Manifest
	Log      *slog.Logger

	announced manifests
	fleets    map[string]*plannedFleet // by capability
}

// plannedFleet is a fleet of the previous plan, with its inputs.
type plannedFleet struct {
	from     *config.Fleet
	manifest *manifest.Manifest
	members  []registry.Member
	secure   *tls.Config
	route    router.FleetConfig
	probe    health.Fleet
	author   catalog.Declaration
}

// Plan takes members in the order of Registry.Members.
func (p *Planner) Plan(s *settings.Settings, members []registry.Member) *Plan {
	next := &Plan{
		Routes: router.Config{Domains: s.Config.Domains, Zone: s.Config.Zone, Ejected: p.Ejected, Limits: p.Limits},
		Probes: make([]health.Fleet, 0, len(s.Config.Fleets)),
		secure: map[string]*tls.Config{},
		Tools:  make(map[string]catalog.Declaration, len(s.Config.Fleets)),

		Shields: map[string]string{},
		Names:   map[string]string{},
	}
	next.Routes.Fleets = make([]router.FleetConfig, 0, len(s.Config.Fleets))
	fleets := make(map[string]*plannedFleet, len(s.Config.Fleets))
	p.announced.begin()
	for _, from := range fleetsFor(s.Config, members) {
		secure, m := s.Backends[from.TLS], s.ManifestOf(from)
		if from.Tools {
			m = p.listed(from)
		}
		dynamic, elsewhere, stricter := fitting(from, MembersOf(members, from.Capability)), "", false
		if m == nil {
			m, elsewhere = p.announced.of(p, dynamic)
			sum := p.announced.inEffect[from.Capability]
			stricter = m != nil && slices.ContainsFunc(dynamic, func(b registry.Member) bool {
				return b.Manifest == sum && s.Config.OnlyStricter(b.Source)
			})
		}
		f := p.fleets[from.Capability]
		if f == nil || f.secure != secure || f.manifest != m || !slices.Equal(f.members, dynamic) ||
			f.from != from && !reflect.DeepEqual(f.from, from) {
			f = newPlannedFleet(from, m, dynamic, secure)
			f.author.ToolsElsewhere, f.author.OnlyStricter = elsewhere, stricter
		}
		p.Others.SetProbe(from.Protocol, &f.probe)
		fleets[from.Capability] = f
		next.Routes.Fleets = append(next.Routes.Fleets, f.route)
		next.Probes = append(next.Probes, f.probe)
		if from.HasTools() {
			next.Tools[from.Capability] = f.author
		}
		if from.MCP.Name != "" {
			next.Names[from.Capability] = from.ToolPrefix()
		}
		if from.Shield != "" {
			next.Shields[from.Capability] = from.Shield
		}
		served := s.Upstreams[from.Capability]
		if served == nil && from.URLs { // it has no fleet in the file
			served = &upstream.Fleet{Capability: from.Capability, Protocol: from.Protocol}
		}
		if served != nil {
			next.Served = append(next.Served, servedFleet(*served, from, &f.probe, secure))
		} else if secure != nil {
			next.secure[from.Capability] = secure
		}
	}
	p.fleets = fleets
	p.announced.end()
	return next
}

// Probes returns the fleets of the last plan, in no order.
func (p *Planner) Probes() []health.Fleet {
	var all []health.Fleet
	for _, f := range p.fleets {
		all = append(all, f.probe)
	}
	return all
}

// fleetsFor returns the configuration's fleets, and a default fleet for each capability that only members serve. The
// sources of members admit only those that may have one. If a capability has members of several sources, the strictest
// policy counts.
func fleetsFor(cfg *config.Config, members []registry.Member) []*config.Fleet {
	all := make([]*config.Fleet, 0, len(cfg.Fleets))
	known := make(map[string]bool, len(cfg.Fleets))
	for i := range cfg.Fleets {
		all = append(all, &cfg.Fleets[i])
		known[cfg.Fleets[i].Capability] = true
	}
	added := map[string]*config.Fleet{}
	for i := range members {
		m := &members[i]
		if known[m.Capability] {
			continue
		}
		policy := cfg.Policy(m.Source)
		if f := added[m.Capability]; f != nil {
			f.Policy = min(f.Policy, policy)
			continue
		}
		f := protocols.DefaultFleet(m.Capability, m.Protocol)
		f.Policy, f.Shield = policy, cfg.Shield
		added[m.Capability] = &f
		all = append(all, &f)
	}
	return all
}

// fitting returns the members that are reached as the backends of a fleet are.
func fitting(f *config.Fleet, members []registry.Member) []registry.Member {
	protocol := ""
	if f.URLs {
		protocol = f.ProtocolName
	}
	other := func(m registry.Member) bool { return m.Protocol != protocol }
	if !slices.ContainsFunc(members, other) {
		return members
	}
	return slices.DeleteFunc(slices.Clone(members), other)
}

// TLS returns the TLS configuration for a capability's backends; nil: cleartext.
func (p *Plan) TLS(capability string) *tls.Config { return p.secure[capability] }

// MembersOf returns the members of one capability.
func MembersOf(members []registry.Member, capability string) []registry.Member {
	first, _ := slices.BinarySearchFunc(members, capability,
		func(m registry.Member, c string) int { return strings.Compare(m.Capability, c) })
	end := first
	for end < len(members) && members[end].Capability == capability {
		end++
	}
	return members[first:end]
}

// newPlannedFleet builds a fleet. For an address, the file's settings take precedence over a member's.
func newPlannedFleet(from *config.Fleet, m *manifest.Manifest, members []registry.Member,
	secure *tls.Config) *plannedFleet {
	f := &plannedFleet{
		from: from, manifest: m, members: slices.Clone(members), secure: secure,
		route: routeOf(withManifest(from, m)), probe: probeOf(from, secure), author: authorOf(from, m),
	}
	hosts := map[string]string{}
	for _, m := range members {
		if slices.Contains(f.probe.Backends[:len(from.Backends)], m.Addr) {
			continue
		}
		b := router.BackendConfig{Addr: m.Addr, Weight: cmp.Or(m.Weight, -1), Zone: m.Zone, Session: m.Session,
			Tenant: ownerOf(m.Session, m.Tenant), Dialect: m.Dialect, Limit: m.MaxConcurrent}
		if from.Tools { // it is no capability, and has none
			b.Dialect = call.Auto
		}
		if m.Protocol != "" { // the Host of requests
			hosts[m.Addr] = m.ServerName
		} else if secure != nil && secure.ServerName == "" {
			b.Host, hosts[m.Addr] = m.ServerName, m.ServerName
		}
		f.route.Backends = append(f.route.Backends, b)
		f.probe.Backends = append(f.probe.Backends, m.Addr)
	}
	f.probe.Hosts = hosts
	return f
}

// routeOf returns the route of a fleet, to whose backends members may be added.
func routeOf(f *config.Fleet) router.FleetConfig {
	route := f.FleetConfig
	route.Backends = slices.Clone(f.Backends)
	route.Secure, route.WaitForReady = f.TLS.Enabled, f.Health.WaitForReady
	return route
}

// ownerOf returns the tenant of the session that a backend serves; without tenants, all have the same one.
func ownerOf(session, of string) string {
	if session == "" {
		return ""
	}
	return cmp.Or(of, tenant.Default)
}

func probeOf(f *config.Fleet, secure *tls.Config) health.Fleet {
	var asks health.Question
	if p := protocols.Of(f); p.Probe != nil {
		asks = p.Probe(f.Health.Probe)
	}
	return health.Fleet{
		Capability: f.Capability, Backends: f.Addrs(), Asks: asks, Dialect: f.Dialect, TLS: secure,
		Services: health.ServicesOf(f.Services, f.Methods), Config: f.Health,
	}
}
