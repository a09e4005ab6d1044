package health

import (
	"context"
	"hash/fnv"
	"time"
)

// Roll is where replicas see who else is alive.
type Roll interface {
	// Beat says that a replica is alive, and returns all that are. Ages are by the
	// roll's own clock.
	Beat(ctx context.Context, b Beat) (Members, error)
	// Leave takes a replica off the roll, and tells those who Follow the Board.
	Leave(ctx context.Context, replica string) error
}

// Board is where replicas share what they found out. What is on it is in Pages;
// each change of a page makes its version one larger and is told to all followers
// with that version. It may lose everything at any time.
type Board interface {
	// Post puts reports on their pages. When it fails, some may be there.
	Post(ctx context.Context, reports []Report) error
	// Page returns page n, 0 to Pages-1. Entries are left out unless it is to be whole.
	Page(ctx context.Context, n int, whole bool) (Page, error)
	// Follow tells of changes, those of one page in order, until it loses its source,
	// which it notices within seconds, or ctx ends. It begins with a Notice in which
	// Fresh is true, after which nothing is missed. tell must not block.
	Follow(ctx context.Context, tell func(Notice)) error
}

// Pages is how many parts the board has. A capability is on one page.
const Pages = 16

// PageOf returns the page of a capability.
func PageOf(capability string) int { return int(hash(capability) % Pages) }

// Beat is what a replica says of itself.
type Beat struct {
	Replica string // unique; no spaces
	Digest  Digest
	Dead    time.Duration // how old a beat makes a replica dead
}

// Digest sums up what a replica probes as the first of its backends' order.
type Digest struct {
	Probes int           // backends
	Sum    uint64        // of hashes over backend and state; in no order
	Late   time.Duration // for how long the probe is overdue that waits longest; 0: none is
}

// Members are the live replicas as of one moment.
type Members struct {
	Epoch   string // changes when the roll has lost everything
	Now     int64  // ms of the roll's clock since 1970
	Members []Member
}

// Member is one live replica.
type Member struct {
	Replica string
	Age     time.Duration // of its last beat
	Digest  Digest
}

// Slot says in which role a replica found something out.
type Slot uint8

// The slots. The second opinion is asked for while the first vote is Down.
const (
	First Slot = iota
	Second
)

// Key is the place of a vote on the board.
type Key struct {
	Capability, Addr string
	Slot             Slot
}

// Vote is what one replica found out about a backend. It is never changed.
type Vote struct {
	State   State
	Refused bool
	Dialect uint8  // a call.Dialect
	Episode uint32 // new whenever the first vote's state changes; a second one answers the first with the same
	Since   int64  // ms of the board's clock, when State began
	Written int64  // ms of the board's clock
	By      string // replica
	Reason  string
}

// Report is one vote to be posted. Of a vote that is posted, Since and Written are
// not used.
type Report struct {
	Key
	Vote *Vote         // nil: the backend is gone
	Age  time.Duration // how long ago its state began
}

// Entry is one vote on a page.
type Entry struct {
	Key
	Vote *Vote // nil, in a Notice: it is gone
}

// Page is one part of the board.
type Page struct {
	Version uint64 // 0: the page is not there
	Now     int64  // ms of the board's clock
	Entries []Entry
}

// Notice is a change of the board or the roll. One of its parts is there.
type Notice struct {
	Fresh bool   // everything that happens from now on will be told
	Left  string // this replica has left the roll

	Page    int
	Version uint64 // of the page, with the change; 0: the notice is not of a page
	New     bool   // the page was not there before
	Entries []Entry
}

// hash is the same on all replicas.
func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // never fails
	return mix(h.Sum64())
}

// mix spreads every bit over all (the end of splitmix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
