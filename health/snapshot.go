package health

import (
	"fmt"
	"strings"
	"time"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/grpcerror"
)

// State is the health of one backend.
type State uint8

// The states. Unknown is usable: there is no evidence against the backend.
const (
	Unknown State = iota
	Up
	Down
)

var stateNames = [...]string{"unknown", "up", "down"}

func (s State) String() string { return stateNames[s] }

// Usable reports whether a call may be sent to a backend in this state.
func (s State) Usable() bool { return s != Down }

// Backend is the health of one backend at one moment.
type Backend struct {
	Addr    string       // host:port, as configured
	State   State        // Unknown until the first probe has ended
	Refused bool         // Down, and the last connection was refused: the port is closed
	Dialect call.Dialect // that answered or is configured; Auto: unknown
	Reason  string       // reason of State; for operators. Callers may read the result of Told
	Since   time.Time    // when State began; zero while Unknown from the start
	By      string       // the observing replica; empty: unknown, or there are no others
}

// Reasons that have a meaning. A backend that writes the same into its own reason deceives its own fleet only.
const (
	recovering   = "recovering: " // the beginning
	wrongService = "wrong backend: "
	incomplete   = "incomplete: "
	rejecting    = "the backend rejects the gateway: "
	says         = "; it says: " // what follows is for operators
	unresolved   = "no connection: the host name does not exist"
)

// Recovering reports whether a backend that is Down had good probes since, but fewer than Config.Rise.
func (b *Backend) Recovering() bool {
	return b.State == Down && strings.HasPrefix(b.Reason, recovering)
}

// Absent reports whether a backend is Down as its port is closed or its host name does not exist: it does not run, or
// not yet.
func (b *Backend) Absent() bool { return b.State == Down && (b.Refused || b.Reason == unresolved) }

// Unprobed reports whether no probe of the backend has ended yet, as far as is known.
func (b *Backend) Unprobed() bool { return b.State == Unknown && b.Since.IsZero() }

// WrongService reports whether a backend is Down as it serves something else than its fleet expects.
func (b *Backend) WrongService() bool {
	return b.State == Down && strings.HasPrefix(b.Reason, wrongService)
}

// Cause returns the kind of Reason of a backend that is Down. The set of texts is small and fixed, while parts of
// Reason may be written by a backend.
func (b Backend) Cause() string {
	switch {
	case b.Refused:
		return "connection refused"
	case b.Recovering():
		return "recovering"
	case b.Absent():
		return "unknown host name"
	case b.WrongService():
		return "wrong backend"
	case isSilent(b.Reason):
		return grpcerror.NoAnswer
	}
	return "not ready"
}

// Snapshot is the health of one fleet at one moment. It is immutable: readers
// share it without locks and must not change Backends.
type Snapshot struct {
	Capability string
	Backends   []Backend // in the order of the configuration

	up, unknown int
}

// NewSnapshot returns a Snapshot, which takes ownership of backends.
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

// Up returns the number of backends that are Up.
func (s *Snapshot) Up() int { return s.up }

// Ready reports whether the fleet has a usable backend. The summary counts the ready ones,
// and may be shown to callers.
func (s *Snapshot) Ready() (ok bool, summary string) {
	summary = fmt.Sprintf("%d of %d backends ready", s.up, len(s.Backends))
	if s.unknown > 0 {
		summary += fmt.Sprintf(", %d not checked yet", s.unknown)
	}
	return s.up+s.unknown > 0, summary
}
