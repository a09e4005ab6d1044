package gateway

import (
	"cmp"
	"runtime"

	"github.com/capgate/capgate/gateway/client"
	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/lib/fairshare"
)

// shares divide what the process has: bytes, of which memory is the accountant, and places.
type shares struct {
	memory          *fairshare.Pool // all bytes
	calls           *fairshare.Pool // what the relay holds of tenants
	unauthenticated *fairshare.Pool // the same of clients that are no tenant's yet, by address

	connections *fairshare.Pool // what clients' connections take that are no tenant's yet, by address
	operators   *fairshare.Pool // what clients of the admin API hold, by address
	sessions    *fairshare.Pool // what sessions at backends hold, by the UIDs of tenants

	process   *fairshare.Pool // the same of the process itself
	upstreams *fairshare.Pool // what connections to backends hold, by their address
	bodies    *fairshare.Pool // requests of the front doors that are not calls yet
	results   *fairshare.Pool // responses that the front doors hold until their clients have read them
	inflating *fairshare.Pool // first messages that are unpacked
	deciding  *fairshare.Pool // messages of calls that are decided on
	unready   *fairshare.Pool // calls that wait for a backend of their fleet
}

const (
	heldMemory = 2 << 30  // Capacity.MaxMemory
	leastPool  = 24 << 20 // in which the longest message finds room
	mostPacked = 256 << 20
	maxHeld    = 64 << 20 // messages of calls that are decided on
	maxUnready = 16 << 20 // calls that wait for a backend, 4 KiB each
	leastKept  = 256 << 10
)

// Parts of the memory that pools may have: one for so many bytes.
const (
	unauthenticatedPart = 8
	inflatingPart       = 4
	resultsPart         = 4
	keptPart            = 64 // for buffers that nobody uses, in all shards
	processPart         = 16 // for what shards hold for all, and calls that the process makes for itself
	upstreamsPart       = 8
	operatorsPart       = 8
	sessionsPart        = 16
)

// bodyCopies is how often the body of a request over HTTP is there before its call begins: as it came, unpacked, as a
// message, and as that message's bytes. The relay counts the last; in little memory all count as one.
const bodyCopies = 3

func newShares(cfg *Config) *shares {
	all := fairshare.New("memory", cmp.Or(cfg.Capacity.MaxMemory, heldMemory))
	m := all.Limit()
	shards := int64(cfg.Relay.Shards)
	own := (shards+1)*relay.ShardCost(keptOf(m, shards)) + m/processPart // one more for the admin API
	process := fairshare.New("process", own, fairshare.Unshared())
	if !all.Of("").Reserve(own) {
		cfg.Log.Error("there is less memory than the gateway itself needs: set a larger overload.max_memory or fewer "+
			"processors", "memory", m, "needed", own)
	}
	copies := min(max(m/(4*leastPool), 1), bodyCopies)
	return &shares{
		memory:          all,
		calls:           all.Sub("calls", m),
		unauthenticated: all.Sub("strangers", max(m/unauthenticatedPart, 1<<20), fairshare.AsOwner(bodybudget.Unknown)),
		process:         process,

		connections: all.Sub("connections", max(m/unauthenticatedPart, 1<<20),
			fairshare.AsOwner("connections of "+bodybudget.Unknown)),
		operators: all.Sub("operators", max(m/operatorsPart, 1<<20), fairshare.AsOwner("clients of the admin API")),
		sessions:  all.Sub("sessions", max(m/sessionsPart, 1<<20), fairshare.AsOwner("sessions at backends")),

		upstreams: all.Sub("upstreams", max(m/upstreamsPart, 1<<20)),
		bodies:    all.Sub("bodies", cmp.Or(cfg.Capacity.MaxBodies, heldBodies), fairshare.Weight(copies)),
		results:   all.Sub("results", max(m/resultsPart, leastPool)),
		inflating: all.Sub("inflating", min(max(m/inflatingPart, leastPool), mostPacked)),
		deciding:  all.Sub("deciding", min(max(m/inflatingPart, leastPool), maxHeld)),
		unready:   all.Sub("unready", maxUnready),
	}
}

// pools returns all pools of bytes, for metrics.
func (p *shares) pools() []*fairshare.Pool {
	return []*fairshare.Pool{p.memory, p.calls, p.unauthenticated, p.connections, p.operators, p.sessions, p.process,
		p.upstreams, p.bodies, p.results, p.inflating, p.deciding, p.unready}
}

// keptOf is how many bytes of buffers each shard of the relay may keep.
func keptOf(memory, shards int64) int {
	return int(min(max(memory/keptPart/shards, leastKept), 16<<20))
}

// shardsOf returns the number of shards. Their fixed cost is a quarter of the memory at most.
func shardsOf(wanted int, memory int64) int {
	return max(min(cmp.Or(wanted, runtime.GOMAXPROCS(0)), int(memory/4/relay.ShardCost(leastKept))), 1)
}

// account implements relay.Memory.Client: the account of a client by its address, until its calls are a tenant's.
func (p *shares) account(peer *relay.Peer) relay.Account {
	if peer == nil || peer.Internal {
		return p.process.Of("")
	}
	return p.unauthenticated.Of(client.Of(peer).Prefix)
}

// connection is relay.Memory.Connection. Requests of strangers at an address do not take the room for its connections.
func (p *shares) connection(peer *relay.Peer) relay.Account {
	return p.connections.Of(clientaddr.NetworkName(clientaddr.AddrOf(peer.Addr)))
}

// operator is relay.Memory.Client and Connection of the admin API.
func (p *shares) operator(peer *relay.Peer) relay.Account {
	if peer == nil || peer.Internal {
		return p.process.Of("")
	}
	return p.operators.Of(clientaddr.NetworkName(clientaddr.AddrOf(peer.Addr)))
}

func (p *shares) upstream(addr string) relay.Account { return p.upstreams.Of(addr) }

// Turn returns when bytes of a client that came now would be dealt with.
func (g *Gateway) Turn() { g.relay.Turn() }

// Bodies is how much is used of Capacity.MaxBodies: 1 is all.
func (g *Gateway) Bodies() float64 { return g.bodies.Used() }
