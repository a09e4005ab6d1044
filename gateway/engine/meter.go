package engine

import "time"

// Meter counts events at a fleet of engines. It must not block.
type Meter interface {
	Waits(more int64)   // messages that wait for a turn; negative: fewer
	Runs(more int64)    // turns
	Attends(more int64) // agents
	Turned(how Turned, after time.Duration)
	CutOff(why CutOff)
}

// Turned is the outcome of waiting for a turn.
type Turned uint8

// The outcomes.
const (
	TurnCame    Turned = iota
	TurnFull           // the queue was full
	TurnLeft           // the caller left
	TurnUnknown        // the store was unavailable
	NumTurned
)

func (t Turned) String() string { return [NumTurned]string{"came", "full", "left", "unknown"}[t] }

// CutOff is the reason why a caller did not get all events of an engine.
type CutOff uint8

// The reasons.
const (
	ReaderSlow CutOff = iota // the caller was too far behind
	StreamLost               // the engine's stream broke
	NumCutOff
)

func (c CutOff) String() string { return [NumCutOff]string{"reader_slow", "stream_lost"}[c] }

// meter returns the meter of a call.
func (g *Guard) meter(p *Passage) Meter {
	if g.cfg.Meters == nil {
		return uncounted{}
	}
	return g.cfg.Meters(p.Fleet, p.Tenant)
}

// uncounted counts nothing.
type uncounted struct{}

func (uncounted) Waits(int64)                  {}
func (uncounted) Runs(int64)                   {}
func (uncounted) Attends(int64)                {}
func (uncounted) Turned(Turned, time.Duration) {}
func (uncounted) CutOff(CutOff)                {}
