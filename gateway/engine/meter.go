package engine

import "time"

// Meter counts what happens at a fleet of engines. It must not block.
type Meter interface {
	Waits(more int64)   // for a turn; fewer than 0: they do not any more
	Runs(more int64)    // turns
	Attends(more int64) // agents
	Turned(how Turned, after time.Duration)
	CutOff(why CutOff)
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

// meter is what counts for a call.
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
