package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/relay"
)

const (
	dialTimeout    = 4 * time.Second // of a connection that can be used: name, TCP, TLS, and the first frame
	addressTimeout = time.Second     // of TCP to one of several addresses
)

// target is one of the endpoints, and its connection.
type target struct {
	endpoint
	proxy    *url.URL // nil: it is dialled directly
	upstream *relay.Upstream
	lookup   func(ctx context.Context, network, host string) ([]netip.Addr, error)
	dialer   net.Dialer
	log      *slog.Logger

	mu   sync.Mutex
	last netip.Addr // was dialled last; a replica that has gone is not the first to be dialled again
}

func newTarget(e endpoint, log *slog.Logger) *target {
	return &target{endpoint: e, lookup: net.DefaultResolver.LookupNetIP, log: log,
		dialer: net.Dialer{KeepAlive: 15 * time.Second}}
}

// targets returns the targets in the settings, still without upstreams.
func (s Settings) targets(log *slog.Logger) (all []*target, err error) {
	ends, err := s.endpoints()
	for _, e := range ends {
		t := newTarget(e, log)
		if t.proxy, err = s.proxyOf(e); err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, err
}

// dial connects to the target through its proxy, or to the first reachable address of its name.
func (t *target) dial(ctx context.Context) (net.Conn, error) {
	if t.proxy != nil {
		return t.dialProxy(ctx)
	}
	addrs, err := t.lookup(ctx, "ip", t.host)
	if err != nil {
		return nil, err
	}
	addrs = t.inTurn(addrs)
	var problems []error
	for _, addr := range addrs {
		nc, err := t.dialAddress(ctx, addr, len(addrs) == 1)
		if err == nil {
			t.log.Debug("connected", "gateway", t.authority(), "address", nc.RemoteAddr())
			return nc, nil
		}
		problems = append(problems, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(problems) == 0 {
		return nil, fmt.Errorf("%s has no address", t.host)
	}
	return nil, errors.Join(problems...)
}

func (t *target) dialAddress(ctx context.Context, addr netip.Addr, only bool) (net.Conn, error) {
	if !only {
		brief, cancel := context.WithTimeout(ctx, addressTimeout)
		defer cancel()
		ctx = brief
	}
	t.mu.Lock()
	t.last = addr
	t.mu.Unlock()
	return t.dialer.DialContext(ctx, "tcp", net.JoinHostPort(addr.String(), t.port))
}

// inTurn sorts addresses so that the one after the last that was dialled comes first; at the beginning any may be
// first, so that many forwarders share the replicas.
func (t *target) inTurn(addrs []netip.Addr) []netip.Addr {
	if len(addrs) == 0 {
		return nil
	}
	addrs = slices.Clone(addrs)
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	addrs = slices.Compact(addrs)
	t.mu.Lock()
	last := t.last
	t.mu.Unlock()
	first := 0
	if !last.IsValid() {
		first = rand.IntN(len(addrs))
	} else if i := slices.IndexFunc(addrs, func(a netip.Addr) bool { return a.Compare(last) > 0 }); i > 0 {
		first = i
	}
	addrs = slices.Concat(addrs[first:], addrs[:first])
	return addrs[:min(len(addrs), maxEndpoints)]
}
