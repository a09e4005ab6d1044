package redisstore

import (
	"sync/atomic"
	"time"
)

// Purpose is the feature for which commands are sent.
type Purpose int

// The purposes.
const (
	Watch       Purpose = iota // probes of Redis
	Listen                     // events of other replicas
	Health                     // membership and observations, drains
	Registry                   // backends that register
	Session                    // backends of sessions and artifacts, sessions at backends
	Permits                    // concurrency limits of backends
	Policy                     // rules
	Approvals                  // approvals of calls
	Identity                   // tenants and API keys
	Limits                     // tenants' limits
	Idempotency                // idempotency keys
	Engines                    // turns at engines, and the owners of their sessions
	RecentCalls                // the last calls and changes
	PastCalls                  // the history of calls in numbers
	purposes
)

func (p Purpose) String() string {
	return [purposes]string{"watch", "listen", "health", "registry", "session", "slots", "policy", "approvals",
		"identity", "limits", "idempotency", "engines", "recent", "history"}[p]
}

// Purposes lists all purposes.
func Purposes() []Purpose {
	return []Purpose{Watch, Listen, Health, Registry, Session, Permits, Policy, Approvals, Identity, Limits,
		Idempotency, Engines, RecentCalls, PastCalls}
}

// Stats count the work of a Store. The counters only grow.
type Stats struct {
	Commands  map[Purpose]int64 // sent to Redis
	Errors    int64             // failed commands, including those that failed at once while Redis was unavailable
	Malformed int64             // malformed values in Redis
	// Unreplicated counts writes that too few replicas had in time.
	Unreplicated int64
	Rejected     map[Kind]int64 // records without a valid signature

	Unavailable      bool      // Redis, or a master of a Cluster
	UnavailableSince time.Time // zero unless Unavailable
	Embedded         bool
}

// Stats is safe for concurrent use.
func (s *Store) Stats() Stats {
	unavailable, since := s.breaker.state()
	if s.shards != nil && !unavailable {
		if b := s.shards.unavailable(); b != nil {
			unavailable, since = b.state()
		}
	}
	stats := Stats{
		Commands: make(map[Purpose]int64, purposes), Errors: s.counts.errors.Load(),
		Malformed:    s.counts.malformed.Load(),
		Unreplicated: s.counts.unreplicated.Load(),
		Unavailable:  unavailable, UnavailableSince: since, Embedded: s.server != nil,
	}
	stats.Rejected = make(map[Kind]int64, len(s.signer.rejected))
	for k, r := range s.signer.rejected {
		stats.Rejected[k] = r.n.Load()
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
