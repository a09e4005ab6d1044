package call

// Engine is how a fleet of OpenParallax engines is guarded.
type Engine struct {
	LastWins bool      // a second agent takes the place of the first; else it is refused
	Shutdown bool      // Shutdown may be called, by who has the scope
	Clients  Numbering // of session modes by clients that do not say otherwise
	Engines  Numbering // by the engines
	Queue    int       // SendMessages that wait for one engine; 0: none may
	Buffer   int       // bytes of events that a client may be behind
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

// Turned is how waiting for a turn at an engine ended.
type Turned uint8

// The ways.
const (
	TurnCame    Turned = iota
	TurnFull           // too many waited already
	TurnLeft           // the caller left before
	TurnUnknown        // it could not be found out whose turn it is
	NumTurned
)

func (t Turned) String() string { return [NumTurned]string{"came", "full", "left", "unknown"}[t] }

// CutOff is why a caller did not get all events of an engine.
type CutOff uint8

// The reasons.
const (
	ReaderSlow CutOff = iota // the caller was too far behind
	StreamLost               // the engine's stream broke
	NumCutOff
)

func (c CutOff) String() string { return [NumCutOff]string{"reader_slow", "stream_lost"}[c] }
