package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Protocol is a protocol of backends besides Selu's. The file may name those that Parse got.
type Protocol struct {
	Name    string   // the value of the fleet's field protocol
	Field   string   // the fleet's field with its settings
	Foreign []string // other fields of the fleet, which have no effect with it
	Probes  []string // words for health.probe; empty: none
	Sole    string   // noun, with its article, for a backend that only one fleet may have; "": several may

	// Settings returns the default settings of a fleet, and the field that parses into them.
	Settings func(*strictyaml.Reader) (settings any, read strictyaml.Field)
	// Fleet sets the fields that are fixed by the protocol. given reports whether the file has a field of the fleet.
	Fleet func(f *Fleet, given func(field string) bool)
}

// selu is the name of Selu's protocol.
const selu = "selu"

// backendProtocol parses the protocol of a fleet's backends.
func (p *parser) backendProtocol(f *Fleet) strictyaml.Field {
	words := []string{selu}
	for _, other := range p.protocols {
		words = append(words, other.Name)
	}
	return func(at strictyaml.Place) {
		p.Text(&f.Protocol, among(words))(at)
		if f.Protocol == selu {
			f.Protocol = ""
		}
	}
}

// settingsOf adds the fields of protocols to those of a fleet, and returns the settings by protocol.
func (p *parser) settingsOf(fields map[string]strictyaml.Field) []any {
	all := make([]any, len(p.protocols))
	for i, other := range p.protocols {
		all[i], fields[other.Field] = other.Settings(&p.Reader)
	}
	return all
}

// applyProtocol completes a fleet after its protocol is known.
func (p *parser) applyProtocol(at, probe strictyaml.Place, f *Fleet, settings []any) {
	var its *Protocol
	var probed []string // protocols
	for i, other := range p.protocols {
		if len(other.Probes) > 0 {
			probed = append(probed, other.Name)
		}
		if other.Name == f.Protocol {
			its, f.Settings = other, settings[i]
		} else if at.Has(other.Field) {
			p.Fail(at.Child(other.Field), "is only for fleets with protocol: %s", other.Name)
		}
	}
	switch {
	case probe.Node == nil:
	case its == nil || len(its.Probes) == 0:
		p.Fail(probe, "is only for fleets with protocol: %s", strings.Join(probed, " or "))
	default:
		p.Text(&f.Health.Probe, among(its.Probes))(probe)
	}
	if its == nil {
		return
	}
	for _, field := range its.Foreign {
		if at.Has(field) {
			p.Fail(at.Child(field), "means nothing with protocol: %s", its.Name)
		}
	}
	its.Fleet(f, at.Has)
	if its.Sole != "" {
		for i := range f.Backends {
			p.oneFleet(at, f, f.Backends[i].Addr, its.Sole)
		}
	}
}

// oneFleet rejects a backend in two fleets of a protocol that requires exclusive use.
func (p *parser) oneFleet(at strictyaml.Place, f *Fleet, addr, what string) {
	if other, twice := p.sole[addr]; twice && other != f.Capability {
		p.Fail(at.Child("backends"), "%s is already %s of the fleet %s", addr, what, other)
		return
	}
	p.sole[addr] = f.Capability
}

// among accepts one of a few words.
func among(words []string) func(string) string {
	return func(v string) string {
		if slices.Contains(words, v) {
			return ""
		}
		if len(words) == 2 {
			return fmt.Sprintf("%q is neither %s nor %s", v, words[0], words[1])
		}
		return fmt.Sprintf("%q is not possible; it must be one of %s", v, strings.Join(words, ", "))
	}
}

// Choice parses one of two words; the second one sets to.
func Choice(r *strictyaml.Reader, to *bool, no, yes string) strictyaml.Field {
	var s string
	return r.Text(&s, func(v string) string {
		*to = v == yes
		return among([]string{no, yes})(v)
	})
}
