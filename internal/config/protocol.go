package config

import (
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/lib/strictyaml"
	"github.com/capgate/capgate/router"
)

// Protocol is a protocol of backends besides Selu's. The file may name those that Parse got.
type Protocol struct {
	Name    string                 // the value of the fleet's field protocol
	Field   string                 // the fleet's field with its settings
	New     func() router.Protocol // a pointer to zero settings, whose tags are as those of Config
	Foreign []string               // other fields of the fleet, which have no effect with it
	Probes  []string               // words for health.probe; empty: none
	URLs    bool                   // backends are URLs, as in https://host/mcp, instead of host:port
	Tools   bool                   // backends list tools, which are called like those of a capability
	Needs   string                 // what Field has, if the fleet must have it; "": it may be absent
	// noun, with its article, for a backend that only one fleet may have; "": several may
	Sole string

	// Fleet sets the fields that are fixed by the protocol. given reports whether the file has a field of the fleet.
	Fleet func(f *Fleet, given func(field string) bool)
	// Check checks a fleet with its settings; nil: they are checked alone.
	Check func(f *Fleet, at strictyaml.At)
}

// selu is the name of Selu's protocol.
const selu = "selu"

// applyProtocol completes a fleet. sole has the fleets of the backends that only one may have.
func (c *Config) applyProtocol(f *Fleet, at strictyaml.At, sole map[string]string) {
	var its *Protocol
	var probed []string // protocols
	foreign := false    // the settings may be those of another protocol
	for _, p := range c.protocols {
		if len(p.Probes) > 0 {
			probed = append(probed, p.Name)
		}
		if p.Name == f.ProtocolName {
			its = p
		} else if at.Has(p.Field) {
			at.Fail(p.Field, "is only for fleets with protocol: %s", p.Name)
			foreign = true
		}
	}
	if f.Health.Probe != "" && (its == nil || !slices.Contains(its.Probes, f.Health.Probe)) {
		at.Field("health").Fail("probe", "is only for fleets with protocol: %s", strings.Join(probed, " or "))
	}
	f.checkAddresses(at, its)
	f.Fields.Check(at, its != nil && its.URLs)
	if its == nil {
		return
	}
	f.Tools, f.URLs = its.Tools, its.URLs
	if f.Protocol == nil {
		if its.Needs != "" {
			at.Missing(its.Field, "required: %s", its.Needs)
		}
		f.Protocol = its.New()
		at.Default(f.Protocol)
	}
	for _, field := range its.Foreign {
		if at.Has(field) {
			at.Fail(field, "has no effect with protocol: %s", its.Name)
		}
	}
	its.Fleet(f, at.Has)
	if its.Check != nil && !foreign {
		its.Check(f, at)
	}
	for i := 0; i < len(f.Backends) && its.Sole != ""; i++ {
		addr := f.Backends[i].Addr
		if other, twice := sole[addr]; twice && other != f.Capability {
			at.Fail("backends", "%s is already %s of the fleet %s", addr, its.Sole, other)
		}
		sole[addr] = f.Capability
	}
}

// checkAddresses checks that backends are URLs where their protocol goes over HTTP, and only there.
func (f *Fleet) checkAddresses(at strictyaml.At, its *Protocol) {
	urls := its != nil && its.URLs
	for i := range f.Backends {
		scheme, _, has := strings.Cut(f.Backends[i].Addr, "://")
		here := at.Field("backends").Item(i)
		switch {
		case urls && !isURL(f.Backends[i].Addr):
			here.Fail("", "is not a URL, which protocol: %s needs; write https://host/mcp or http://host:port/mcp",
				its.Name)
		case urls && f.TLS.Enabled && !strings.EqualFold(scheme, "https"):
			here.Fail("", "is reached without TLS, so the fleet's tls has no effect; write https:// or remove tls")
		case !urls && has && isURL(f.Backends[i].Addr):
			here.Fail("", "write host:port without %q; TLS is switched on by the fleet's tls field", scheme+"://")
		}
	}
	if urls && len(f.Backends) == 0 && !f.Found() {
		at.Fail("backends", "has no server; backends cannot register themselves with protocol: %s", its.Name)
	}
}

// listsTools reports whether backends of a protocol have tools.
func (c *Config) listsTools(protocol string) bool {
	return protocol == selu || slices.ContainsFunc(c.protocols, func(p *Protocol) bool {
		return p.Name == protocol && p.Tools
	})
}
