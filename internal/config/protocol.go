package config

import (
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Protocol is a protocol of backends besides Selu's. The file may name those that Parse got.
type Protocol struct {
	Name    string     // the value of the fleet's field protocol
	Field   string     // the fleet's field with its settings
	New     func() any // a pointer to zero settings, whose tags are as those of Config
	Foreign []string   // other fields of the fleet, which have no effect with it
	Probes  []string   // words for health.probe; empty: none
	Sole    string     // noun, with its article, for a backend that only one fleet may have; "": several may

	// Fleet sets the fields that are fixed by the protocol. given reports whether the file has a field of the fleet.
	Fleet func(f *Fleet, given func(field string) bool)
}

// selu is the name of Selu's protocol.
const selu = "selu"

// applyProtocol completes a fleet. sole has the fleets of the backends that only one may have.
func (c *Config) applyProtocol(f *Fleet, at strictyaml.At, sole map[string]string) {
	var its *Protocol
	var probed []string // protocols
	for _, p := range c.protocols {
		if len(p.Probes) > 0 {
			probed = append(probed, p.Name)
		}
		if p.Name == f.Protocol {
			its = p
		} else if at.Has(p.Field) {
			at.Fail(p.Field, "is only for fleets with protocol: %s", p.Name)
		}
	}
	if f.Health.Probe != "" && (its == nil || !slices.Contains(its.Probes, f.Health.Probe)) {
		at.Field("health").Fail("probe", "is only for fleets with protocol: %s", strings.Join(probed, " or "))
	}
	if its == nil {
		return
	}
	if f.Settings == nil {
		f.Settings = its.New()
		at.Default(f.Settings)
	}
	for _, field := range its.Foreign {
		if at.Has(field) {
			at.Fail(field, "means nothing with protocol: %s", its.Name)
		}
	}
	its.Fleet(f, at.Has)
	for i := 0; i < len(f.Backends) && its.Sole != ""; i++ {
		addr := f.Backends[i].Addr
		if other, twice := sole[addr]; twice && other != f.Capability {
			at.Fail("backends", "%s is already %s of the fleet %s", addr, its.Sole, other)
		}
		sole[addr] = f.Capability
	}
}
