package engine

import (
	"slices"

	"github.com/capgate/capgate/router"
)

// Settings of the protection of OpenParallax engines.
type Settings struct {
	// A second agent: first-wins rejects it; with last-wins it takes over.
	LastWins bool `yaml:"agent" enum:"first-wins,last-wins" default:"first-wins"`
	// true permits Shutdown to callers with the scope engine.admin.
	Shutdown bool `yaml:"shutdown" default:"false"`
	// Numbers of SessionMode. source: NORMAL=1, OTR=2; seed: NORMAL=0, OTR=1.
	Modes `yaml:"session_modes"`
	// Queue is the number of messages of one engine that may wait, over all replicas; 0 means 100, and -1 none.
	Queue int `yaml:"-"`
	// Buffer is the bytes of events that a client may leave unread before its stream ends; 0 means 4 MiB.
	Buffer int `yaml:"-"`
}

// Modes are numberings of session modes.
type Modes struct {
	// Numbering by clients, unless a call names its own.
	Clients Numbering `yaml:"clients" enum:"source,seed" default:"source"`
	// Numbering by the engines.
	Engines Numbering `yaml:"engines" enum:"source,seed" default:"source"`
}

// Name is the protocol's name in the configuration.
const Name = "openparallax"

// Traits implements router.Protocol.
func (*Settings) Traits() router.Traits { return router.Traits{Name: Name, Durable: true} }

// Request implements router.Protocol.
func (*Settings) Request(string) router.Request { return router.Request{} }

// SettingsOf returns a fleet's settings; nil if it is not a fleet of engines.
func SettingsOf(f *router.Fleet) *Settings {
	s, _ := f.Protocol().(*Settings)
	return s
}

// Numbering is a numbering of session modes. The protocol's documents and its published source differ.
type Numbering uint8

// Numberings.
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
