package engine

import "time"

// Meter counts events at a fleet of engines. It must not block.
type Meter interface {
	AddWaiting(more int64) // change of the number of messages waiting for a turn
	AddRunning(more int64) // turns
	AddAgents(more int64)  // agents
	TurnEnded(how TurnOutcome, after time.Duration)
	CutOff(why CutOff)
}

// TurnOutcome is the outcome of waiting for a turn.
type TurnOutcome uint8

// Outcomes.
const (
	TurnCame    TurnOutcome = iota
	TurnFull                // the queue was full
	TurnLeft                // the caller left
	TurnUnknown             // the store was unavailable
	NumTurnOutcomes
)

func (t TurnOutcome) String() string {
	return [NumTurnOutcomes]string{"came", "full", "left", "unknown"}[t]
}

// CutOff is the reason why a caller did not receive all events of an engine.
type CutOff uint8

// Reasons.
const (
	ReaderSlow CutOff = iota // the caller was too far behind
	StreamLost               // the engine's stream broke
	NumCutOff
)

func (c CutOff) String() string { return [NumCutOff]string{"reader_slow", "stream_lost"}[c] }

// meter returns the meter of a call.
func (g *Guard) meter(p *Call) Meter {
	if g.cfg.Meters == nil {
		return noMeter{}
	}
	return g.cfg.Meters(p.Fleet, p.Tenant)
}

// noMeter counts nothing.
type noMeter struct{}

func (noMeter) AddWaiting(int64)                     {}
func (noMeter) AddRunning(int64)                     {}
func (noMeter) AddAgents(int64)                      {}
func (noMeter) TurnEnded(TurnOutcome, time.Duration) {}
func (noMeter) CutOff(CutOff)                        {}
