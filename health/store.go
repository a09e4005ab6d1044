package health

import (
	"context"
	"hash/fnv"
	"time"
)

// Membership lists the replicas that are alive.
type Membership interface {
	// Heartbeat announces that a replica is alive and returns all live replicas. Ages are
	// measured by the membership's own clock.
	Heartbeat(ctx context.Context, b Heartbeat) (Members, error)
	// Leave removes a replica, and notifies the watchers of the Store.
	Leave(ctx context.Context, replica string) error
}

// Store holds the observations that replicas share. It is divided into Shards. Each change gives its shard a larger
// version, which contains the time: a store that forgets changes, as after a failover, gives no version twice. The
// change is sent to all watchers with its version and the one before. The store may lose its content at any time.
type Store interface {
	// Publish stores reports in their shards, and notifies the watchers. If there are many changes, notices wait, and a
	// later one has many changes: Publish returns the shards for which that is so. After an error some reports may be
	// stored.
	Publish(ctx context.Context, reports []Report) ([]Waiting, error)
	// Shard returns shard n, 0 to Shards-1. Entries are left out unless whole is set. A notice that has waited long
	// enough is sent.
	Shard(ctx context.Context, n int, whole bool) (Shard, error)
	// Watch delivers changes, in order within each shard, until its source is lost or ctx ends.
	// It notices a lost source within seconds. The first event has Subscribed set; no later change
	// is missed. handle must not block.
	Watch(ctx context.Context, tell func(Event)) error
}

// Shards is the number of shards of the store. All entries of a capability are in one shard.
const Shards = 16

// ShardOf returns the shard of a capability.
func ShardOf(capability string) int { return int(hash(capability) % Shards) }

// Heartbeat is the announcement of a replica.
type Heartbeat struct {
	Replica string // unique; no spaces
	Digest  Digest
	Dead    time.Duration // age of the last heartbeat at which a replica counts as dead
}

// Digest summarizes the backends of which a replica is the primary prober.
type Digest struct {
	Probes int           // backends
	Sum    uint64        // of the hashes of backend and state, independent of their order
	Late   time.Duration // by how much the most overdue probe is late; 0: no probe is
}

// Members are the live replicas at one moment.
type Members struct {
	Epoch   string // changes when the membership has lost its content
	Now     int64  // the membership's clock, ms since 1970
	Members []Member
}

// Member is one live replica.
type Member struct {
	Replica string
	Age     time.Duration // since its last heartbeat, or the longest that it may be: Heartbeat.Dead
	Digest  Digest
}

// Role is the part that a replica takes in probing a backend.
type Role uint8

// The roles. The secondary probes only while the primary's observation is Down. A replica that is neither probes on
// demand, while calls wait for the backend here; the store has no observations in that role.
const (
	Primary Role = iota
	Secondary
	OnDemand
)

// Key identifies an observation in the store.
type Key struct {
	Capability, Addr string
	Role             Role
}

// Observation is one replica's finding about a backend. It is immutable.
type Observation struct {
	State   State
	Refused bool
	Dialect uint8 // a call.Dialect
	// Episode is new whenever the primary's state changes. The secondary's observation answers the
	// primary's of the same episode.
	Episode uint32
	Since   int64  // start of State, ms of the store's clock
	Written int64  // ms of the store's clock
	By      string // the observing replica
	Reason  string
}

// Report is one observation to publish. Its Since and Written are ignored; the store sets them.
type Report struct {
	Key
	Observation *Observation  // nil: the backend was removed
	Age         time.Duration // time since the state began
}

// Entry is one observation in a shard.
type Entry struct {
	Key
	Observation *Observation // nil, in an Event: it was deleted
}

// Shard is one part of the store.
type Shard struct {
	Version uint64        // of its last notice; 0: the shard does not exist
	Now     int64         // ms of the store's clock
	Wait    time.Duration // time until its next read should send the notice that waits; 0: none waits
	Entries []Entry       // those of the notice that waits are included
}

// Waiting is a shard whose notice of a publication waits.
type Waiting struct {
	Shard   int
	Version uint64        // of its last notice
	Wait    time.Duration // time until a read of the shard should send the notice
}

// Event is a change of the store or of the membership. Exactly one of its parts is set.
type Event struct {
	Subscribed bool   // every later change will be delivered
	Left       string // the replica that left

	Shard    int
	Version  uint64 // of the shard, after the change; 0: the event is not about a shard
	Previous uint64 // before it; 0: the shard did not exist
	Entries  []Entry
}

// hash returns the same value on all replicas.
func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	return mix(h.Sum64())
}

// mix diffuses every bit over the whole word (the finalizer of splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
