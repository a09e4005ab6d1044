package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/capgate/capgate/internal/lib/recovery"
)

const (
	// maxAddrs bounds the addresses of one name.
	maxAddrs = 1024
	// maxTargets bounds the SRV records of one name that are resolved.
	maxTargets = 1024
	// maxLookups bounds the SRV targets that are resolved at one time.
	maxLookups = 8
	// maxWeight is the largest weight of a backend; SRV records go to 65535.
	maxWeight = 10_000
	// defaultWeight is the share of a backend without a weight.
	defaultWeight = 100
)

// Resolver queries DNS. *net.Resolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error)
}

// NewResolver queries the server at an ip:port, or the system's servers if it is empty. An answer with a part
// temporarily missing, like all IPv4 addresses, is an error.
func NewResolver(server string) Resolver {
	r := &net.Resolver{PreferGo: true, StrictErrors: true}
	if server != "" {
		r.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server)
		}
	}
	return r
}

// endpoint is one address of a name.
type endpoint struct {
	addr   netip.AddrPort
	weight int // relative to the name's other endpoints; defaultWeight without a weight in DNS
}

// Lookup looks up a name once, and returns its backends.
func Lookup(ctx context.Context, r Resolver, t Target) ([]Member, error) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	found, err := lookup(ctx, r, t.Name)
	members := make([]Member, len(found))
	for i, e := range found {
		members[i] = Member{Capability: t.Capability, Addr: e.addr.String(), ServerName: t.Name.serverName(),
			Weight: t.Weight, Zone: t.Zone, Session: t.Session, Tenant: t.Tenant}
	}
	return members, err
}

// errNoAddress means that a name has no address.
var errNoAddress = errors.New("the name has no address")

// lookup returns the endpoints of a name, sorted, so that the order of an answer does not matter. The error is
// errNone, or that of an incomplete answer.
func lookup(ctx context.Context, r Resolver, n Name) ([]endpoint, error) {
	var found []endpoint
	var err error
	if n.Port == 0 {
		found, err = lookupSRV(ctx, r, n.Host)
	} else {
		var addrs []netip.Addr
		addrs, err = lookupHost(ctx, r, n.Host)
		for _, a := range addrs {
			found = append(found, endpoint{netip.AddrPortFrom(a, n.Port), defaultWeight})
		}
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b endpoint) int {
		return cmp.Or(a.addr.Compare(b.addr), cmp.Compare(b.weight, a.weight))
	})
	found = slices.CompactFunc(found, func(a, b endpoint) bool { return a.addr == b.addr })
	if len(found) == 0 {
		return nil, errNoAddress
	}
	return found[:min(len(found), maxAddrs)], nil
}

// lookupHost returns a host's addresses in no particular order. A host that does not exist has none, without an
// error.
func lookupHost(ctx context.Context, r Resolver, host string) ([]netip.Addr, error) {
	addrs, err := r.LookupNetIP(ctx, "ip", host)
	if notFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap().WithZone("")
	}
	return addrs, nil
}

// lookupSRV uses the records with the lowest priority value that has an address (RFC 2782): the others stand by.
func lookupSRV(ctx context.Context, r Resolver, name string) ([]endpoint, error) {
	_, records, err := r.LookupSRV(ctx, "", "", name)
	if notFound(err) {
		return nil, nil
	}
	if err != nil && len(records) == 0 { // with some, the others were malformed
		return nil, err
	}
	slices.SortFunc(records, compareSRV)
	records = records[:min(len(records), maxTargets)]
	for len(records) > 0 {
		n := 1
		for n < len(records) && records[n].Priority == records[0].Priority {
			n++
		}
		found, err := lookupTargets(ctx, r, records[:n])
		if err != nil || len(found) > 0 {
			return found, err
		}
		records = records[n:]
	}
	return nil, nil
}

func compareSRV(a, b *net.SRV) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Target, b.Target), cmp.Compare(a.Port, b.Port),
		cmp.Compare(a.Weight, b.Weight))
}

// lookupTargets resolves records of one priority. A temporary failure of one target fails the whole answer, so
// that its backends are not lost.
func lookupTargets(ctx context.Context, r Resolver, records []*net.SRV) ([]endpoint, error) {
	addrs, errs := make([][]netip.Addr, len(records)), make([]error, len(records))
	slots := make(chan struct{}, maxLookups)
	var all sync.WaitGroup
	for i, rec := range records {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = recovery.Do("dns", func() (err error) {
				if addrs[i], err = lookupHost(ctx, r, rec.Target); err != nil {
					err = fmt.Errorf("target %s: %w", rec.Target, err)
				}
				return err
			})
		})
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	scale := scaleOf(records)
	var found []endpoint
	for i, rec := range records {
		for _, a := range addrs[i] {
			if rec.Port != 0 {
				found = append(found, endpoint{netip.AddrPortFrom(a, rec.Port), scale(rec.Weight)})
			}
		}
	}
	return found, nil
}

// scaleOf converts the weights of records to those of backends. Without weights all are equal; among others 0
// means almost none (RFC 2782).
func scaleOf(records []*net.SRV) func(uint16) int {
	largest := 0
	for _, rec := range records {
		largest = max(largest, int(rec.Weight))
	}
	return func(w uint16) int {
		switch {
		case largest == 0:
			return defaultWeight
		case largest > maxWeight:
			return max(int(w)*maxWeight/largest, 1)
		default:
			return max(int(w), 1)
		}
	}
}

func notFound(err error) bool {
	var dns *net.DNSError
	return errors.As(err, &dns) && dns.IsNotFound
}
