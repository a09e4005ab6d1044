package overload

import (
	"sync"
	"sync/atomic"
	"time"
)

// Config sets the limits; 0 is no limit.
type Config struct {
	MaxInFlight int64         // concurrent calls in this process
	MaxMemory   int64         // live bytes of the heap and of stacks
	MaxDelay    time.Duration // delay of bytes by the process's own work, standing for a tenth of a second
}

// Verdict is the decision on a call.
type Verdict uint8

// The verdicts.
const (
	Admitted  Verdict = iota
	OverShare         // its tenant is over its fair share
	Full              // no call is admitted, or there is only one tenant
)

// Shedder admits or sheds calls (admission control).
type Shedder struct {
	cfg             Config
	inFlight        atomic.Int64
	bound           atomic.Int64 // of inFlight
	boundForSmall   atomic.Int64 // of inFlight, for tenants with few calls
	limited         atomic.Bool  // calls need tokens
	newTenantTokens atomic.Int64 // tokens of a new tenant
	rate            rate         // used by Tick only
	usage           atomic.Pointer[Usage]

	mu     sync.Mutex // held to add or remove shares
	shares sync.Map   // tenant → *Share
}

// Usage is the used part of each limit, 1 being all of it; 0 without a limit.
type Usage struct{ InFlight, Memory, Delay float64 }

// New returns a Shedder.
func New(cfg Config) *Shedder {
	s := &Shedder{cfg: cfg}
	s.bound.Store(cfg.inFlight())
	s.boundForSmall.Store(cfg.inFlight())
	s.usage.Store(&Usage{})
	return s
}

// unbounded exceeds any number of calls, with room for arithmetic.
const unbounded = 1 << 40

func (c *Config) inFlight() int64 {
	if c.MaxInFlight <= 0 {
		return unbounded
	}
	return min(c.MaxInFlight, unbounded)
}

// Admit begins a call of a tenant. If it is admitted, Share.Done must be called at its end. The tenant "" is a
// single tenant: no capacity is reserved for others. Admit does not block, and does not keep the string.
func (s *Shedder) Admit(tenant string) (*Share, Verdict) {
	t := s.share(tenant)
	running := s.inFlight.Add(1)
	if v := s.decide(t, running); v != Admitted {
		s.inFlight.Add(-1)
		t.refused.Add(1)
		return nil, v
	}
	t.started.Add(1)
	return t, Admitted
}

func (s *Shedder) decide(t *Share, running int64) Verdict {
	free := s.bound.Load() - running
	switch {
	case free < 0 && (t.only || t.running() >= alwaysAllowed || running > s.boundForSmall.Load()):
		return Full
	case free >= 0 && !t.only && t.running() >= reserve*(free+1):
		return OverShare
	case !s.limited.Load() || t.take():
		return Admitted
	case t.only:
		return Full
	}
	return OverShare
}

// Usage returns the result of the last Tick.
func (s *Shedder) Usage() Usage {
	u := *s.usage.Load()
	if s.cfg.MaxInFlight > 0 {
		u.InFlight = float64(s.inFlight.Load()) / float64(s.cfg.MaxInFlight)
	}
	return u
}

// InFlight returns the number of admitted calls that have not ended.
func (s *Shedder) InFlight() int64 { return s.inFlight.Load() }
