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

// shares divides the memory of the process among its users. memory accounts for all of it.
type shares struct {
	memory          *fairshare.Pool // total
	calls           *fairshare.Pool // buffers of tenants' calls in the relay
	unauthenticated *fairshare.Pool // buffers of calls without a tenant, by client address

	connections *fairshare.Pool // connections without a tenant, by client address
	operators   *fairshare.Pool // clients of the admin API, by address
	sessions    *fairshare.Pool // sessions at backends, by the UIDs of tenants

	process   *fairshare.Pool // the process itself
	upstreams *fairshare.Pool // connections to backends, by address
	bodies    *fairshare.Pool // HTTP requests that are not calls yet
	results   *fairshare.Pool // HTTP responses until their clients have read them
	inflating *fairshare.Pool // compressed first messages
	deciding  *fairshare.Pool // messages of calls that wait for a decision
	unready   *fairshare.Pool // calls that wait for a backend
}

const (
	heldMemory = 2 << 30  // Capacity.MaxMemory
	leastPool  = 24 << 20 // room for the longest message
	mostPacked = 256 << 20
	maxHeld    = 64 << 20 // messages of calls that wait for a decision
	maxUnready = 16 << 20 // calls that wait for a backend, 4 KiB each
	leastKept  = 256 << 10
)

// Divisors of the memory: the parts that pools may use.
const (
	unauthenticatedPart = 8
	inflatingPart       = 4
	resultsPart         = 4
	keptPart            = 64 // unused buffers of all shards
	processPart         = 16 // fixed cost of shards, and the process's own calls
	upstreamsPart       = 8
	operatorsPart       = 8
	sessionsPart        = 16
)

// bodyCopies is the number of copies of an HTTP request's body before its call starts: as received, decompressed, as a
// message, and as that message's bytes. The relay counts the last. With little memory, all count as one.
const bodyCopies = 3

func newShares(cfg *Config) *shares {
	all := fairshare.New("memory", cmp.Or(cfg.Capacity.MaxMemory, heldMemory))
	m := all.Limit()
	shards := int64(cfg.Relay.Shards)
	own := (shards+1)*relay.ShardCost(keptOf(m, shards)) + m/processPart // one more for the admin API
	process := fairshare.New("process", own, fairshare.Unshared())
	if !all.Of("").Reserve(own) {
		cfg.Log.Error("the gateway itself needs more memory: increase overload.max_memory, or use fewer "+
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

// pools returns all memory pools, for metrics.
func (p *shares) pools() []*fairshare.Pool {
	return []*fairshare.Pool{p.memory, p.calls, p.unauthenticated, p.connections, p.operators, p.sessions, p.process,
		p.upstreams, p.bodies, p.results, p.inflating, p.deciding, p.unready}
}

// keptOf returns the maximum bytes of unused buffers per shard.
func keptOf(memory, shards int64) int {
	return int(min(max(memory/keptPart/shards, leastKept), 16<<20))
}

// shardsOf returns the number of shards. Their fixed cost is at most a quarter of the memory.
func shardsOf(wanted int, memory int64) int {
	return max(min(cmp.Or(wanted, runtime.GOMAXPROCS(0)), int(memory/4/relay.ShardCost(leastKept))), 1)
}

// account implements relay.Memory.Client. A client is charged by its address until its calls belong to a tenant.
func (p *shares) account(peer *relay.Peer) relay.Account {
	if peer == nil || peer.Internal {
		return p.process.Of("")
	}
	return p.unauthenticated.Of(client.Of(peer).Prefix)
}

// connection implements relay.Memory.Connection. Requests of unauthenticated clients at an address do not use the
// memory of its connections.
func (p *shares) connection(peer *relay.Peer) relay.Account {
	return p.connections.Of(clientaddr.NetworkName(clientaddr.AddrOf(peer.Addr)))
}

// operator implements relay.Memory.Client and Connection for the admin API.
func (p *shares) operator(peer *relay.Peer) relay.Account {
	if peer == nil || peer.Internal {
		return p.process.Of("")
	}
	return p.operators.Of(clientaddr.NetworkName(clientaddr.AddrOf(peer.Addr)))
}

func (p *shares) upstream(addr string) relay.Account { return p.upstreams.Of(addr) }

// Turn measures the delay of the run queues.
func (g *Gateway) Turn() { g.relay.Turn() }

// Bodies returns the used fraction of Capacity.MaxBodies, from 0 to 1.
func (g *Gateway) Bodies() float64 { return g.bodies.Used() }
