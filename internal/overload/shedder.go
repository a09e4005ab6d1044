package overload

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Config sets the limits; 0 is no limit.
type Config struct {
	MaxInFlight int64 // concurrent calls in this process
	// Off is true for overload: off.
	Off bool `yaml:"-" enum:"off" scalar:""`
	// Live bytes. Default three quarters of the process's memory limit. There may be a call for each 16 KiB of memory
	// of the process.
	MaxMemory int64 `yaml:"max_memory" kind:"size"` // of the heap and of stacks
	// Maximum wait of the input of a connection, throughout a tenth of a second. Default 10ms, and 100ms without
	// tenants, which need no protection from each other.
	MaxDelay time.Duration `yaml:"max_delay" min:"100µs" max:"10s"` // by the process's own work

	Log *slog.Logger // logs what is shed; nil: discarded
}

// Verdict is the decision on a call.
type Verdict uint8

// The verdicts.
const (
	Admitted  Verdict = iota
	OverShare         // its tenant is over its fair share
	Full              // no call is admitted, or there is only one tenant
)

// Limit names the limit for which calls are shed. Shedder decides on the first three, others on the rest.
type Limit uint8

// The limits.
const (
	NoLimit Limit = iota
	InFlight
	Memory
	Delay
	Pools  // memory of an owner
	Bodies // request bodies at the front doors, of an owner
	Queue  // waiting requests at the front doors
	numLimits
)

// NumLimits is the number of values of Limit; each is below it.
const NumLimits = int(numLimits)

var limitNames = [numLimits]string{"", "in_flight", "memory", "delay", "pools", "bodies", "queue"}

func (l Limit) String() string { return limitNames[l] }

// Shedder admits or sheds calls (admission control).
type Shedder struct {
	cfg             Config
	inFlight        atomic.Int64
	bound           atomic.Int64 // of inFlight
	boundForSmall   atomic.Int64 // of inFlight, for tenants with few calls
	limited         atomic.Bool  // calls need tokens
	sparing         atomic.Bool  // tenants that hold less than their share of the memory are not shed for it
	newTenantTokens atomic.Int64 // tokens of a new tenant
	rate            rate         // used by Tick only
	ticks           int          // the same
	usage           atomic.Pointer[Usage]
	use             atomic.Pointer[func(tenant string) Use]

	mu     sync.Mutex // held to add or remove shares
	shares sync.Map   // tenant → *Share
}

// Usage is the used part of each limit, 1 being all of it; 0 without a limit.
type Usage struct{ InFlight, Memory, Delay float64 }

// Use is the memory use of a tenant, in bytes.
type Use struct {
	Doors int64 // bodies and results that the doors hold: work that is not finished
	Held  int64 // memory, that of Doors included
	Moved int64 // messages that the relay moved, since the start
}

// SetUse sets the source of what tenants use. It must not block. Without it only calls and charged bytes count.
func (s *Shedder) SetUse(use func(tenant string) Use) { s.use.Store(&use) }

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
	t, v, _ := s.AdmitCall(tenant, nil)
	return t, v
}

// AdmitCall is Admit, and returns the limit for which the call is shed. last is the share of an earlier call of the
// tenant, which saves a lookup; nil means none.
func (s *Shedder) AdmitCall(tenant string, last *Share) (*Share, Verdict, Limit) {
	t := last
	if t == nil || t.shedder != s || t.dropped.Load() {
		t = s.share(tenant)
	}
	running := s.inFlight.Add(1)
	if v, limit := s.decide(t, running); v != Admitted {
		s.inFlight.Add(-1)
		t.refused[limit].Add(1)
		return nil, v, limit
	}
	t.started.Add(1)
	return t, Admitted, NoLimit
}

// AdmitBody decides whether the body of a tenant's request may be read and decoded, before its call begins. bytes is
// its expected length. An admitted body is charged to the tenant, by Charge.
func (s *Shedder) AdmitBody(tenant string, bytes int64) (Verdict, Limit) {
	t := s.share(tenant)
	var limit Limit
	switch {
	case t.hog.Load():
		limit = Memory
	case s.limited.Load() && t.tokens.Load() <= 0:
		limit = Delay
	default:
		return Admitted, NoLimit
	}
	t.refused[limit].Add(1)
	t.rejected.Add(max(bytes, 0))
	return t.verdict(), limit
}

// Charge counts the work of so many bytes for a tenant. It never blocks or rejects.
func (s *Shedder) Charge(tenant string, bytes int64) { s.share(tenant).charge(bytes) }

func (t *Share) verdict() Verdict {
	if t.only {
		return Full
	}
	return OverShare
}

func (s *Shedder) decide(t *Share, running int64) (Verdict, Limit) {
	free, hog := s.bound.Load()-running, t.hog.Load()
	spared := !hog && s.sparing.Load()
	switch {
	case hog && t.running() >= alwaysAllowed:
		return OverShare, Memory
	case free < 0 && (t.only || t.running() >= alwaysAllowed && !spared || running > s.boundForSmall.Load()):
		return Full, s.boundedBy()
	case free >= 0 && !t.only && !spared && t.running() >= reserve*(free+1):
		return OverShare, s.boundedBy()
	case !s.limited.Load() || t.take():
		return Admitted, NoLimit
	}
	return t.verdict(), Delay
}

// boundedBy returns the limit that corresponds to the bound of calls in flight.
func (s *Shedder) boundedBy() Limit {
	if s.bound.Load() < s.cfg.inFlight() {
		return Memory
	}
	return InFlight
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
