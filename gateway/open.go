package gateway

import (
	"cmp"
	"net/netip"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
)

// OpenCalls bounds the calls of services that need no credential. Health/Watch lasts as long as its client likes, and so
// does reflection: somebody without a credential must not have all of them.
type OpenCalls struct {
	All        int // at once; default 4096
	Network    int // of a network, an IPv4 address or a /64 of IPv6; default 512
	Connection int // default 100
}

func (c OpenCalls) withDefaults() OpenCalls {
	return OpenCalls{cmp.Or(c.All, 4096), cmp.Or(c.Network, 512), cmp.Or(c.Connection, 100)}
}

// openings counts the calls that need no credential.
type openings struct {
	most  OpenCalls
	mu    sync.Mutex
	all   int
	conns map[*relay.Peer]int
	nets  map[netip.Prefix]int
}

// open lets calls in that need no credential, as many as there may be.
type open struct{ h *handler }

// Admit implements filter.Filter.
func (f open) Admit(t *filter.Call, s *authState) filter.Step {
	_, _ = claimOf(t.Stream, f.h.callers.credentials, t.Client.Peer) // a credential goes no further
	t.Info.Tenant, t.Principal.Scopes = tenant.Default, tenant.Read
	var fits bool
	if s.opening, fits = f.h.openings.begin(t.Stream.Peer(), t.Client.Address); !fits {
		return t.Reject(refusedOpen)
	}
	return filter.Continue
}

// Done implements filter.Filter.
func (f open) Done(_ *filter.Call, s *authState, _ *filter.Result) { f.h.openings.end(s.opening) }

// opening is a call that is counted; the zero value is none.
type opening struct {
	peer *relay.Peer  // nil: the connection is the gateway's own
	net  netip.Prefix // not valid: the address is not known
	open bool
}

// begin counts a call of a client at that address, unless there are too many. end is due then.
func (o *openings) begin(p *relay.Peer, client string) (opening, bool) {
	c := opening{open: true}
	if !p.Internal {
		c.peer = p
	}
	if a, err := netip.ParseAddr(client); err == nil {
		c.net = networkOf(a)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.conns == nil {
		o.conns, o.nets = map[*relay.Peer]int{}, map[netip.Prefix]int{}
	}
	if o.all >= o.most.All || c.peer != nil && o.conns[c.peer] >= o.most.Connection || c.net.IsValid() && o.nets[c.net] >= o.most.Network {
		return opening{}, false
	}
	o.add(c, 1)
	return c, true
}

// end takes a call off the count.
func (o *openings) end(c opening) {
	if !c.open {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.add(c, -1)
}

func (o *openings) add(c opening, n int) {
	o.all += n
	if c.peer != nil {
		count(o.conns, c.peer, n)
	}
	if c.net.IsValid() {
		count(o.nets, c.net, n)
	}
}

// count keeps no keys of which there are none.
func count[K comparable](of map[K]int, key K, n int) {
	if of[key] += n; of[key] == 0 {
		delete(of, key)
	}
}

// networkOf is whose an address is taken to be: an address of IPv4, a /64 of IPv6.
func networkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 64
	if a.Is4() {
		bits = 32
	}
	p, _ := a.Prefix(bits) // it has so many
	return p
}

var refusedOpen = &call.Refusal{Kind: call.ResourceExhausted, Reason: "OPEN_CALLS_FULL", RetryAfter: time.Second,
	Message: "too many calls that need no credential are open already, of this connection, address or gateway: end some"}
