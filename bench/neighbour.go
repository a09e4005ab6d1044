package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/bench/peers"
	"github.com/capgate/capgate/internal/tenant"
)

const (
	quietRate   = 500             // calls a second of the tenant that is harmed, or not
	floodTimes  = 2               // as many calls as the gateway can do, of the one that floods over gRPC
	floodBefore = 2 * time.Second // the flood begins so long before the other's calls count
)

// door is how a tenant's calls come.
type door struct {
	tls    bool
	json   bool
	legacy bool // gRPC that has to be translated
}

var (
	byGRPC = door{}
	byJSON = door{json: true}
	byTLS  = door{tls: true}

	byLegacy = door{legacy: true}
)

// neighbours are two tenants, of which one floods.
type neighbours struct {
	title        string
	quiet, flood door
	rounds       []harm
}

// harm is one round of them.
type harm struct{ alone, beside, flood load.Result }

func (h harm) times() float64        { return float64(h.beside.P99) / float64(h.alone.P99) }
func (h harm) stolen() time.Duration { return h.alone.OtherCPU + h.alone.Stolen + h.beside.Stolen }

// neighbour measures a tenant's calls alone, and beside the flood of another.
func (b *bench) neighbour(ctx context.Context) (string, error) {
	all := []*neighbours{
		{title: "gRPC beside gRPC"},
		{title: "the same over TLS", quiet: byTLS, flood: byTLS},
		{title: "gRPC beside JSON", flood: byJSON},
		{title: "gRPC beside translated gRPC", flood: byLegacy},
		{title: "JSON beside gRPC", quiet: byJSON},
		{title: "JSON beside JSON", quiet: byJSON, flood: byJSON},
	}
	street := map[bool]*street{}
	for _, tls := range []bool{false, true} {
		s, err := b.open(ctx, tls)
		if err != nil {
			return "", err
		}
		street[tls] = s
	}
	for range b.opts.rounds {
		for _, n := range all {
			h, err := street[n.quiet.tls].live(ctx, n)
			if err != nil {
				return "", fmt.Errorf("%s: %w", n.title, err)
			}
			if h.beside.Errors > 0 {
				fmt.Fprintf(os.Stderr, "bench: %s: %d calls failed, one of them with %s\n", n.title, h.beside.Errors,
					h.beside.Problem)
			}
			n.rounds = append(n.rounds, h)
		}
	}
	return neighbourTable(b.opts, street[false].can, all), nil
}

// street is a gateway that has the two tenants.
type street struct {
	bench *bench
	peer  *peers.Peer
	keys  [2]string // of who floods, and of the quiet one
	can   float64   // calls a second of gRPC
}

func (b *bench) open(ctx context.Context, tls bool) (*street, error) {
	s, env := &street{bench: b}, b.env
	env.Capgate.TLS = tls
	env.Capgate.Config, s.keys = twoTenants()
	var err error
	if s.peer, err = peers.Start(ctx, peers.CapgateSpec(env.Capgate), env); err != nil {
		return nil, err
	}
	b.running = append(b.running, s.peer)
	most := s.calls(byGRPC, s.keys[0])
	most.Mode, most.Flood, most.Conns, most.Streams, most.Warm = load.Closed, true, 8, inflight/8, time.Second
	can, err := b.window(ctx, s.peer, most)
	if err != nil {
		return nil, fmt.Errorf("the gateway's capacity: %w", err)
	}
	s.can = float64(can.Calls) / can.Seconds
	return s, nil
}

func (s *street) calls(by door, key string) load.Config {
	method := load.Invoke
	if by.legacy {
		method = load.Legacy
	}
	return load.Config{
		Method: method, RequestSize: 1024, Work: h2.Work{Kind: h2.ReplyWork, Count: 1, Size: 1024},
		Key: key, HTTP: by.json, Warm: s.bench.opts.warm, Window: s.bench.opts.window,
	}
}

// live is one round.
func (s *street) live(ctx context.Context, n *neighbours) (h harm, err error) {
	b := s.bench
	quiet := s.calls(n.quiet, s.keys[1])
	quiet.Mode, quiet.Rate, quiet.Conns, quiet.Turn = load.Open, quietRate, 4, load.First
	flood := s.calls(n.flood, s.keys[0])
	flood.Mode, flood.Rate, flood.Conns, flood.Flood, flood.Turn = load.Open, int(floodTimes*s.can), 8, true, load.Last
	if n.quiet.json {
		quiet.Conns = 64 // one has a call at a time
	}
	switch {
	case n.flood.json:
		flood.Mode, flood.Conns = load.Closed, inflight
	case n.flood.legacy:
		flood.Mode, flood.Streams = load.Closed, inflight/flood.Conns
	}
	flood.Window += floodBefore + flood.Warm + time.Second
	if h.alone, err = b.window(ctx, s.peer, quiet); err != nil {
		return h, fmt.Errorf("a tenant alone: %w", err)
	}
	l, err := b.startLoad(ctx, s.peer, flood)
	if err != nil {
		return h, err
	}
	pause(ctx, floodBefore)
	if h.beside, err = b.window(ctx, s.peer, quiet); err != nil {
		err = fmt.Errorf("a tenant beside a flood: %w", err)
	}
	var floodErr error
	if h.flood, floodErr = l.wait(); floodErr != nil {
		floodErr = fmt.Errorf("the flood: %w", floodErr)
	}
	return h, errors.Join(err, floodErr)
}

func neighbourTable(o options, can float64, all []*neighbours) string {
	var out strings.Builder
	fmt.Fprintf(&out,
		"%s, %d rounds of %v; the figures are of the quiet one of each. The gateway has a core of its own, and a "+
			"capacity of %.0f calls a second over gRPC.\n\n",
		machine(), o.rounds, o.window, can)
	out.WriteString("| a tenant's calls, and the flood's | alone, p50 / p99 | beside the flood | p99 grows | within " +
		"twice | failed | the flood: served, turned away | others busy |\n|---|---|---|---|---|---|---|---|\n")
	for _, n := range all {
		within, failed := 0, int64(0)
		for _, h := range n.rounds {
			if failed += h.beside.Errors; h.times() <= 2 {
				within++
			}
		}
		quiet := slices.MinFunc(n.rounds, func(a, b harm) int { return int(a.stolen() - b.stolen()) })
		fmt.Fprintf(&out, "| %s | %s | %s | %.2f × | %d of %d | %d | %d, %d | %s |\n", n.title, latency(quiet.alone),
			latency(quiet.beside), quiet.times(),
			within, len(n.rounds), failed, quiet.flood.Total, quiet.flood.Refused,
			share(quiet.stolen(), quiet.alone.Seconds+quiet.beside.Seconds))
	}
	return out.String()
}

// twoTenants returns the part of a configuration that has them, and their keys.
func twoTenants() (config string, keys [2]string) {
	var out strings.Builder
	out.WriteString("tenants:\n")
	for i, name := range []string{"flood", "quiet"} {
		id, secret := tenant.NewCredential()
		keys[i] = tenant.Credential(id, secret)
		fmt.Fprintf(&out, "  - id: %s\n    capabilities: [\"*\"]\n    keys: [{id: %s, hash: %q}]\n", name, id,
			tenant.HashOf(secret, nil))
	}
	return out.String(), keys
}
