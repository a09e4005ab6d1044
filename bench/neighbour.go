package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/bench/peers"
	"github.com/capgate/capgate/internal/tenant"
)

const (
	quietRate     = 1000            // calls a second of the quiet tenant
	floodTimes    = 2               // rate of a flood of small calls, as a multiple of the gateway's capacity
	floodBefore   = 2 * time.Second // time between the start of the flood and the measurement
	neighbourGoal = 1.5             // largest ratio of a p99 beside a flood to the p99 alone
)

// way is the protocol of a tenant's calls.
type way struct {
	title  string
	tls    bool
	kind   kind // of HTTP/1.1 requests; "" is gRPC
	upload bool
}

// quietWays lists the protocols of the quiet tenant's calls, one for each front door.
func quietWays() []way {
	return []way{{title: "gRPC"}, {title: "gRPC over TLS", tls: true}, {title: "JSON", kind: invoke},
		{title: "Connect", kind: connect}, {title: "MCP", kind: mcp}}
}

func floodWays() []way {
	return []way{{title: "small calls"}, {title: "large uploads", upload: true}, {title: "JSON", kind: invoke},
		{title: "MCP", kind: mcp}}
}

// harm is one round: the quiet tenant's calls without and with the flood, and the flood's calls.
type harm struct{ alone, beside, flood load.Result }

func (h harm) p99() float64          { return float64(h.beside.P99) / float64(h.alone.P99) }
func (h harm) p999() float64         { return float64(h.beside.P999) / float64(h.alone.P999) }
func (h harm) stolen() time.Duration { return h.alone.OtherCPU + h.alone.Stolen + h.beside.Stolen }

// neighbours holds the rounds of one protocol beside one flood.
type neighbours struct {
	quiet, flood way
	rounds       []harm
}

// neighbour measures a tenant's calls alone, and beside another tenant's floods.
func (b *bench) neighbour(ctx context.Context) (string, error) {
	if b.opts.profiles != "" {
		if err := os.MkdirAll(b.opts.profiles, 0o755); err != nil {
			return "", err
		}
	}
	var all []*neighbours
	for _, quiet := range b.opts.quiet {
		for _, flood := range b.opts.floods {
			flood.tls = quiet.tls
			all = append(all, &neighbours{quiet: quiet, flood: flood})
		}
	}
	streets := map[bool]*street{}
	for _, quiet := range b.opts.quiet {
		if streets[quiet.tls] != nil {
			continue
		}
		s, err := b.open(ctx, quiet.tls)
		if err != nil {
			return "", err
		}
		streets[quiet.tls] = s
	}
	for range b.opts.rounds {
		alone := map[string]load.Result{}
		for _, n := range all {
			s := streets[n.quiet.tls]
			if _, ok := alone[n.quiet.title]; !ok {
				res, err := b.window(ctx, s.peer, s.quiet(n.quiet))
				if err != nil {
					return "", fmt.Errorf("%s alone: %w", n.quiet.title, err)
				}
				alone[n.quiet.title] = res
			}
			h, err := s.live(ctx, n)
			if err != nil {
				return "", fmt.Errorf("%s beside %s: %w", n.quiet.title, n.flood.title, err)
			}
			h.alone = alone[n.quiet.title]
			n.rounds = append(n.rounds, h)
			fmt.Fprintf(os.Stderr, "%-14s beside %-14s %s, alone %s; %d failed %s\n", n.quiet.title, n.flood.title,
				tail(h.beside), tail(h.alone), h.beside.Errors, h.beside.Problem)
		}
	}
	return neighbourTable(b.opts, streets[b.opts.quiet[0].tls].can, all), nil
}

// street is a gateway with two tenants.
type street struct {
	bench *bench
	peer  *peers.Peer
	keys  [2]string // of the flooding tenant, and of the quiet one
	can   float64   // capacity: calls a second of gRPC
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
	most := s.calls(way{}, s.keys[0])
	most.Mode, most.Flood, most.Conns, most.Streams, most.Warm = load.Closed, true, 8, inflight/8, time.Second
	can, err := b.window(ctx, s.peer, most)
	if err != nil {
		return nil, fmt.Errorf("the gateway's capacity: %w", err)
	}
	s.can = float64(can.Calls) / can.Seconds
	return s, nil
}

func (s *street) calls(by way, key string) load.Config {
	cfg := load.Config{Method: load.Invoke, RequestSize: 1024, Work: h2.Work{Kind: h2.ReplyWork, Count: 1, Size: 1024}}
	if by.upload {
		cfg.Method, cfg.RequestSize, cfg.Chunks = load.Upload, h2.Uploaded.Size, h2.Uploaded.Count
	}
	if by.kind != "" {
		cfg.JSON = &load.JSON{HTTP1: !by.tls}
		cfg = scenario{kind: by.kind, cfg: cfg}.load("capgate")
	}
	cfg.Key, cfg.Warm, cfg.Window = key, s.bench.opts.warm, s.bench.opts.window
	return cfg
}

// quiet returns the calls of the quiet tenant.
func (s *street) quiet(by way) load.Config {
	cfg := s.calls(by, s.keys[1])
	cfg.Mode, cfg.Rate, cfg.Conns, cfg.Turn = load.Open, quietRate, 4, load.First
	if by.kind != "" {
		cfg.Conns = 64 // each has one call at a time
	}
	return cfg
}

// live measures the quiet tenant's calls beside the flood.
func (s *street) live(ctx context.Context, n *neighbours) (h harm, err error) {
	b := s.bench
	flood := s.calls(n.flood, s.keys[0])
	flood.Mode, flood.Rate, flood.Conns, flood.Flood, flood.Turn = load.Open, int(floodTimes*s.can), 8, true, load.Last
	switch {
	case n.flood.upload:
		flood.Mode, flood.Streams = load.Closed, 2
	case n.flood.kind != "" && n.flood.tls:
		flood.Mode, flood.Streams = load.Closed, inflight/flood.Conns
	case n.flood.kind != "":
		flood.Mode, flood.Conns = load.Closed, inflight
	}
	flood.Window += floodBefore + flood.Warm + time.Second
	l, err := b.startLoad(ctx, s.peer, flood)
	if err != nil {
		return h, err
	}
	pause(ctx, floodBefore)
	if h.beside, err = s.beside(ctx, n); err != nil {
		err = fmt.Errorf("a tenant beside a flood: %w", err)
	}
	var floodErr error
	if h.flood, floodErr = l.wait(); floodErr != nil {
		floodErr = fmt.Errorf("the flood: %w", floodErr)
	}
	return h, errors.Join(err, floodErr)
}

// beside measures the quiet tenant's calls while a flood runs, and records a trace of the gateway if the options name a
// directory for it.
func (s *street) beside(ctx context.Context, n *neighbours) (res load.Result, err error) {
	b := s.bench
	l, err := b.startLoad(ctx, s.peer, s.quiet(n.quiet))
	if err != nil {
		return res, err
	}
	var traced error
	if b.opts.profiles != "" {
		pause(ctx, b.opts.warm)
		name := strings.ReplaceAll(n.quiet.title+"-beside-"+n.flood.title+".trace", " ", "-")
		traced = fetchProfile(ctx, s.peer, "trace", b.opts.window, filepath.Join(b.opts.profiles, name))
	}
	res, err = l.wait()
	return res, errors.Join(err, traced)
}

func neighbourTable(o options, can float64, all []*neighbours) string {
	var out strings.Builder
	fmt.Fprintf(&out,
		"%s, %d rounds of %v; the figures are of the quiet one of each. The gateway has a core of its own, and a "+
			"capacity of %.0f calls a second over gRPC. The quiet tenant makes %d calls a second.\n\n",
		machine(), o.rounds, o.window, can, quietRate)
	fmt.Fprintf(&out, "| calls, beside a flood of | alone, p50 / p99 / p99.9 | beside the flood | p99 grows | "+
		"p99.9 grows | goal: p99 ≤ %.1f × | failed | the flood: served, turned away | others busy |\n"+
		"|---|---|---|---|---|---|---|---|---|\n", neighbourGoal)
	for _, n := range all {
		within, failed := 0, int64(0)
		for _, h := range n.rounds {
			if failed += h.beside.Errors; h.p99() <= neighbourGoal {
				within++
			}
		}
		q := slices.MinFunc(n.rounds, func(a, b harm) int { return cmp.Compare(a.stolen(), b.stolen()) })
		fmt.Fprintf(&out, "| %s, %s | %s | %s | %.2f × | %.2f × | %d of %d | %d | %d, %d | %s |\n", n.quiet.title,
			n.flood.title, tail(q.alone), tail(q.beside), q.p99(), q.p999(), within, len(n.rounds), failed,
			q.flood.Total, q.flood.Refused, share(q.stolen(), q.alone.Seconds+q.beside.Seconds))
	}
	return out.String()
}

// tail formats the latencies of a window.
func tail(r load.Result) string {
	return fmt.Sprintf("%.0f / %.0f / %.0f µs", micros(r.P50), micros(r.P99), micros(r.P999))
}

// twoTenants returns the part of a configuration that defines the tenants, and their keys.
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
