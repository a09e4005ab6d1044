package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capgate/capgate/internal/lib/strictyaml"
)

// Protocol is a protocol of backends beside Selu's. The file knows those that Parse was given.
type Protocol struct {
	Name    string   // the word for the fleet's field protocol
	Field   string   // of the fleet, that has its settings
	Foreign []string // other fields of the fleet, that mean nothing with it
	Probes  []string // words for health.probe; empty: none
	Sole    string   // what a backend is that only one fleet may have, with its article; "": several may

	// Settings are those of a fleet of which the file says nothing more, and how its field is read into them.
	Settings func(*strictyaml.Reader) (settings any, read strictyaml.Field)
	// Fleet sets what is so of every fleet of the protocol. given says whether the file has a field of the fleet.
	Fleet func(f *Fleet, given func(field string) bool)
}

// selu is the word for Selu's protocol.
const selu = "selu"

// speaks reads which protocol the backends of a fleet speak.
func (p *parser) speaks(f *Fleet) strictyaml.Field {
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

// settingsOf adds the fields of a fleet that protocols have, and answers with their settings, by protocol.
func (p *parser) settingsOf(fields map[string]strictyaml.Field) []any {
	all := make([]any, len(p.protocols))
	for i, other := range p.protocols {
		all[i], fields[other.Field] = other.Settings(&p.Reader)
	}
	return all
}

// ofProtocol goes on with a fleet once it is known what its backends speak.
func (p *parser) ofProtocol(at, probe strictyaml.Place, f *Fleet, settings []any) {
	var its *Protocol
	var probed []string // protocols
	for i, other := range p.protocols {
		if len(other.Probes) > 0 {
			probed = append(probed, other.Name)
		}
		if other.Name == f.Protocol {
			its, f.Settings = other, settings[i]
		} else if at.Has(other.Field) {
			p.Fail(at.Child(other.Field), "is for fleets with protocol: %s", other.Name)
		}
	}
	switch {
	case probe.Node == nil:
	case its == nil || len(its.Probes) == 0:
		p.Fail(probe, "is for fleets with protocol: %s", strings.Join(probed, " or "))
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

// oneFleet rejects a backend that two fleets have, each of which would use it as if it were alone.
func (p *parser) oneFleet(at strictyaml.Place, f *Fleet, addr, what string) {
	if other, twice := p.sole[addr]; twice && other != f.Capability {
		p.Fail(at.Child("backends"), "%s is %s of the fleet %s already", addr, what, other)
		return
	}
	p.sole[addr] = f.Capability
}

// among is whether a word is one of a few.
func among(words []string) func(string) string {
	return func(v string) string {
		if slices.Contains(words, v) {
			return ""
		}
		if len(words) == 2 {
			return fmt.Sprintf("%q is neither %s nor %s", v, words[0], words[1])
		}
		return fmt.Sprintf("%q is none of %s", v, strings.Join(words, ", "))
	}
}

// Choice is one of two words, of which the second is true.
func Choice(r *strictyaml.Reader, to *bool, no, yes string) strictyaml.Field {
	var s string
	return r.Text(&s, func(v string) string {
		*to = v == yes
		return among([]string{no, yes})(v)
	})
}
