package health

import (
	"fmt"
	"time"

	"github.com/capgate/capgate/internal/call"
)

// State is what is known about one backend.
type State uint8

// The states. Unknown is usable: nothing speaks against the backend.
const (
	Unknown State = iota
	Up
	Down
)

var stateNames = [...]string{"unknown", "up", "down"}

func (s State) String() string { return stateNames[s] }

// Usable says whether a call may be sent to a backend in this state.
func (s State) Usable() bool { return s != Down }

// Backend is the health of one backend at one moment.
type Backend struct {
	Addr    string       // host:port, as configured
	State   State        // Unknown until the first probe has ended
	Refused bool         // Down, and the last probe's connection was refused: surely nobody is there
	Dialect call.Dialect // the dialect that answered, or the configured one; Auto: not known
	Reason  string       // why the state is what it is; for operators, never for callers
	Since   time.Time    // when State began; zero while Unknown from the start
	By      string       // the replica that says so; empty: not known, or there are no others
}

// Snapshot is the health of one fleet at one moment. It is immutable: readers
// share it without locks and must not change Backends.
type Snapshot struct {
	Capability string
	Backends   []Backend // in the order of the configuration

	up, unknown int
}

// NewSnapshot makes a Snapshot, which owns backends from then on.
func NewSnapshot(capability string, backends []Backend) *Snapshot {
	s := &Snapshot{Capability: capability, Backends: backends}
	for i := range backends {
		switch backends[i].State {
		case Up:
			s.up++
		case Unknown:
			s.unknown++
		case Down:
		}
	}
	return s
}

// Up is how many backends are.
func (s *Snapshot) Up() int { return s.up }

// Ready says whether the fleet has a usable backend, and how many are ready in
// words that a caller may see.
func (s *Snapshot) Ready() (ok bool, summary string) {
	summary = fmt.Sprintf("%d of %d backends ready", s.up, len(s.Backends))
	if s.unknown > 0 {
		summary += fmt.Sprintf(", %d not checked yet", s.unknown)
	}
	return s.up+s.unknown > 0, summary
}
