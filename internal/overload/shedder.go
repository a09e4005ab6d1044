package overload

import (
	"sync"
	"sync/atomic"
	"time"
)

// Config sets the limits; one that is 0 does not exist.
type Config struct {
	MaxInFlight int64         // calls at once, in this process
	MaxMemory   int64         // bytes that live in the heap, and of stacks
	MaxDelay    time.Duration // that bytes may wait because of the process's own work, all through a tenth of a second
}

// Verdict is what becomes of a call.
type Verdict uint8

// The verdicts.
const (
	Admitted Verdict = iota
	Heavy            // its tenant is above its fair share
	Full             // nobody is let in, or there is only one tenant
)

// Shedder admits calls or turns them away.
type Shedder struct {
	cfg      Config
	inFlight atomic.Int64
	bound    atomic.Int64 // of inFlight
	brim     atomic.Int64 // of inFlight, for tenants that have few calls
	limited  atomic.Bool  // calls need tokens
	welcome  atomic.Int64 // tokens of a tenant that nobody knew
	rate     rate         // Tick's own
	usage    atomic.Pointer[Usage]

	mu     sync.Mutex // of changes to which shares there are
	shares sync.Map   // tenant → *Share
}

// Usage is how much of the process' own limits is in use: 1 is all of one. What has no
// limit is 0.
type Usage struct{ InFlight, Memory, Delay float64 }

// New makes a Shedder.
func New(cfg Config) *Shedder {
	s := &Shedder{cfg: cfg}
	s.bound.Store(cfg.inFlight())
	s.brim.Store(cfg.inFlight())
	s.usage.Store(&Usage{})
	return s
}

// unbounded is more calls than there can be, with room to calculate.
const unbounded = 1 << 40

func (c *Config) inFlight() int64 {
	if c.MaxInFlight <= 0 {
		return unbounded
	}
	return min(c.MaxInFlight, unbounded)
}

// Admit begins a call of a tenant, whose Share.Done is to be called when it has ended, if
// it was admitted. The tenant "" is one that shares with nobody: nothing is kept for others.
// It does not block. The string is not kept.
func (s *Shedder) Admit(tenant string) (*Share, Verdict) {
	t := s.share(tenant)
	running := s.inFlight.Add(1)
	if v := s.judge(t, running); v != Admitted {
		s.inFlight.Add(-1)
		t.refused.Add(1)
		return nil, v
	}
	t.started.Add(1)
	return t, Admitted
}

func (s *Shedder) judge(t *Share, running int64) Verdict {
	free := s.bound.Load() - running
	switch {
	case free < 0 && (t.alone || t.running() >= few || running > s.brim.Load()):
		return Full
	case free >= 0 && !t.alone && t.running() >= reserve*(free+1):
		return Heavy
	case !s.limited.Load() || t.take():
		return Admitted
	case t.alone:
		return Full
	}
	return Heavy
}

// Usage is what Tick found last.
func (s *Shedder) Usage() Usage {
	u := *s.usage.Load()
	if s.cfg.MaxInFlight > 0 {
		u.InFlight = float64(s.inFlight.Load()) / float64(s.cfg.MaxInFlight)
	}
	return u
}

// InFlight is how many calls were admitted and are not done.
func (s *Shedder) InFlight() int64 { return s.inFlight.Load() }
