package engine

import (
	"slices"

	"github.com/capgate/capgate/router"
)

// Settings are how a fleet of engines is guarded.
type Settings struct {
	LastWins bool      // a second agent takes the place of the first; else it is refused
	Shutdown bool      // Shutdown may be called, by callers with the scope
	Clients  Numbering // of session modes by clients that do not say otherwise
	Engines  Numbering // by the engines
	Queue    int       // SendMessages that wait for one engine; 0: none may
	Buffer   int       // bytes of events that a client may be behind
}

// DefaultSettings are those of a fleet of which the configuration says nothing more.
func DefaultSettings() *Settings { return &Settings{Queue: 100, Buffer: 4 << 20} }

// SettingsOf are a fleet's; nil: it is of something else than engines.
func SettingsOf(f *router.Fleet) *Settings {
	s, _ := f.Protocol().(*Settings)
	return s
}

// Numbering is how the modes of sessions are numbered, which the protocol's documents and its
// published source do differently.
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

// Fleets are the ids of all fleets of engines that a table has, sorted.
func Fleets(table *router.Table) (ids []string) {
	for _, f := range table.Fleets() {
		if SettingsOf(f) != nil {
			ids = append(ids, f.Capability)
		}
	}
	slices.Sort(ids)
	return ids
}
