package redisstore

import (
	"sync/atomic"
	"time"
)

// Purpose is what commands are for. Each feature has one.
type Purpose int

// The purposes.
const (
	Watch       Purpose = iota // asking whether Redis is there
	Listen                     // to what other replicas tell
	Health                     // who is alive, who probes whom, drains
	Registry                   // backends that register
	Session                    // which backend has a session or an artifact
	Slots                      // how many calls a backend may have
	Policy                     // rules: who may call what
	Approvals                  // calls that wait for a person
	Identity                   // who calls: tenants and API keys
	Limits                     // how much tenants may do
	Idempotency                // calls with idempotency keys
	Engines                    // whose turn it is at engines, and whose their sessions are
	purposes
)

func (p Purpose) String() string {
	return [purposes]string{"watch", "listen", "health", "registry", "session", "slots", "policy", "approvals", "identity", "limits", "idempotency", "engines"}[p]
}

// Purposes are all of them.
func Purposes() []Purpose {
	return []Purpose{Watch, Listen, Health, Registry, Session, Slots, Policy, Approvals, Identity, Limits, Idempotency, Engines}
}

// Stats is what a Store has done. The counters only grow.
type Stats struct {
	Commands  map[Purpose]int64 // that were sent to Redis
	Errors    int64             // commands that failed, those that an absent Redis made fail at once among them
	Malformed int64             // values found in Redis that could not be understood
	// Unreplicated are writes that too few replicas had in time.
	Unreplicated int64
	Rejected     map[Kind]int64 // records that no store key has signed

	Away      bool
	AwaySince time.Time // zero unless Away
	Embedded  bool
}

// Stats may be called from any goroutine.
func (s *Store) Stats() Stats {
	away, since := s.breaker.state()
	stats := Stats{
		Commands: make(map[Purpose]int64, purposes), Errors: s.counts.errors.Load(), Malformed: s.counts.malformed.Load(),
		Unreplicated: s.counts.unreplicated.Load(),
		Away:         away, AwaySince: since, Embedded: s.server != nil,
	}
	stats.Rejected = make(map[Kind]int64, kinds)
	for _, k := range Kinds() {
		stats.Rejected[k] = s.seals.rejected[k].Load()
	}
	for _, p := range Purposes() {
		stats.Commands[p] = s.counts.commands[p].Load()
	}
	return stats
}

// counts are the Store's counters.
type counts struct {
	commands          [purposes]atomic.Int64
	errors, malformed atomic.Int64
	unreplicated      atomic.Int64
}
