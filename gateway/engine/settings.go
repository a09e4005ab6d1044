package engine

import (
	"slices"

	"github.com/capgate/capgate/router"
)

// Settings configure the Guard for a fleet of engines.
type Settings struct {
	LastWins bool      // a second agent replaces the first; otherwise it is rejected
	Shutdown bool      // Shutdown is permitted to callers with the scope
	Clients  Numbering // numbering of session modes by clients without ModesHeader
	Engines  Numbering // numbering by the engines
	Queue    int       // maximum SendMessages that wait for one engine
	Buffer   int       // maximum bytes of events that a client may be behind
}

// DefaultSettings returns the defaults.
func DefaultSettings() *Settings { return &Settings{Queue: 100, Buffer: 4 << 20} }

// SettingsOf returns a fleet's settings; nil if it is not a fleet of engines.
func SettingsOf(f *router.Fleet) *Settings {
	s, _ := f.Protocol().(*Settings)
	return s
}

// Numbering is a numbering of session modes. The protocol's documents and its published source differ.
type Numbering uint8

// The numberings.
const (
	BySource Numbering = iota // UNSPECIFIED=0, NORMAL=1, OTR=2, HEARTBEAT=3
	BySeed                    // NORMAL=0, OTR=1, HEARTBEAT=3
)

var numberingNames = [...]string{"source", "seed"}

func (n Numbering) String() string { return numberingNames[n] }

// ParseNumbering reads a numbering's name as the configuration spells it.
func ParseNumbering(name string) (Numbering, bool) {
	for i, n := range numberingNames {
		if n == name {
			return Numbering(i), true
		}
	}
	return BySource, false
}

// Fleets returns the sorted ids of all fleets of engines in a table.
func Fleets(table *router.Table) (ids []string) {
	for _, f := range table.Fleets() {
		if SettingsOf(f) != nil {
			ids = append(ids, f.Capability)
		}
	}
	slices.Sort(ids)
	return ids
}
