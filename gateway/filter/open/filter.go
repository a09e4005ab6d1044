package open

import (
	"cmp"
	"net/netip"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/clientaddr"
	"github.com/capgate/capgate/internal/tenant"
)

// Limits limits calls of services that need no credential. A client determines how long Health/Watch and reflection
// last, so no client may hold all of these calls. A network is an IPv4 address or an IPv6 /64.
type Limits struct {
	// Maximum number of concurrent calls that need no credential, such as Health/Watch and reflection.
	All int
	// Maximum number of them from one network, at most All.
	Network int
	// Maximum number of them on one connection, at most Network.
	Connection int
}

// For returns the limits of a process with some connections of clients: a quarter may be calls that need no credential.
func For(connections int) Limits {
	network := max(connections/32, 1)
	return Limits{All: max(connections/4, 1), Network: network, Connection: min(100, network)}
}

func (c Limits) withDefaults() Limits {
	return Limits{cmp.Or(c.All, 4096), cmp.Or(c.Network, 512), cmp.Or(c.Connection, 100)}
}

// Filter admits a limited number of calls that need no credential.
type Filter struct {
	drop func(*filter.Call)
	most Limits

	mu    sync.Mutex
	all   int
	conns map[*relay.Peer]int
	nets  map[netip.Prefix]int
}

// New returns a Filter. drop removes the credentials from a call. Limits of zero use the defaults.
func New(drop func(*filter.Call), most Limits) *Filter {
	return &Filter{drop: drop, most: most.withDefaults(), conns: map[*relay.Peer]int{}, nets: map[netip.Prefix]int{}}
}

// Admit implements filter.Filter.
func (f *Filter) Admit(t *filter.Call, s *State) filter.Step {
	f.drop(t)
	t.Info.Tenant, t.Credential.Scopes = tenant.Default, tenant.Read
	if s.counted = f.begin(t.Stream.Peer(), t.Client.Address); s.counted == nil {
		return t.Reject(rejectedOpen)
	}
	return filter.Continue
}

// Done implements filter.Filter.
func (f *Filter) Done(_ *filter.Call, s *State, _ *filter.Result) {
	if s.counted != nil {
		f.end(s.counted)
	}
}

// State is the state of a call.
type State struct{ counted *counted } // nil means not counted

// counted holds the keys under which a call is counted.
type counted struct {
	peer *relay.Peer  // nil means a connection of the gateway itself
	net  netip.Prefix // invalid if the address is unknown
}

// begin counts a call of a client at an address. It returns nil if there are too many; otherwise end must be called.
func (f *Filter) begin(p *relay.Peer, client string) *counted {
	c := &counted{}
	if !p.Internal {
		c.peer = p
	}
	if a, err := netip.ParseAddr(client); err == nil {
		c.net = clientaddr.Network(a)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all >= f.most.All || c.peer != nil && f.conns[c.peer] >= f.most.Connection ||
		c.net.IsValid() && f.nets[c.net] >= f.most.Network {
		return nil
	}
	f.add(c, 1)
	return c
}

// end removes a call from the counts.
func (f *Filter) end(c *counted) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(c, -1)
}

func (f *Filter) add(c *counted, n int) {
	f.all += n
	if c.peer != nil {
		count(f.conns, c.peer, n)
	}
	if c.net.IsValid() {
		count(f.nets, c.net, n)
	}
}

// count adds n to a count, and deletes counts of zero.
func count[K comparable](of map[K]int, key K, n int) {
	if of[key] += n; of[key] == 0 {
		delete(of, key)
	}
}

var rejectedOpen = &call.Refusal{Kind: call.ResourceExhausted, Reason: "OPEN_CALLS_FULL", RetryAfter: time.Second,
	Message: "too many calls without a credential are open on this connection, from this address or at this " +
		"gateway: end some"}
