package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/bench/peers"
)

// cell is what one peer did in one scenario.
type cell struct {
	rounds []measured
	failed string // why there is no figure
}

type measured struct {
	cost   float64
	result load.Result
	heap   heap // allocations a request; only of JSON
}

// keep returns the round that is printed: the quietest is the one in which the rest of
// the machine did least. The cheapest would often be one in which a peer was kept from
// running, and did its work in fewer, larger pieces.
func (c *cell) keep(how string) (measured, bool) {
	if len(c.rounds) == 0 {
		return measured{}, false
	}
	byCost := func(a, b measured) int { return cmp.Compare(a.cost, b.cost) }
	switch how {
	case "quiet":
		return slices.MinFunc(c.rounds, func(a, b measured) int {
			return cmp.Or(cmp.Compare(a.result.OtherCPU, b.result.OtherCPU), byCost(a, b))
		}), true
	case "median":
		return slices.SortedFunc(slices.Values(c.rounds), byCost)[len(c.rounds)/2], true
	}
	return slices.MinFunc(c.rounds, byCost), true
}

// compare runs the scenarios against all peers, interleaved.
func (b *bench) compare(ctx context.Context) (string, error) {
	alive := map[string]*peers.Peer{}
	r := &report{opts: b.opts}
	for _, s := range b.opts.peers {
		if why := b.missing(s); why != "" {
			r.note("%s left out: %s", s.Name, why)
			continue
		}
		p, err := b.startPeer(ctx, s, b.env)
		if err != nil {
			if ctx.Err() != nil {
				return "", ctx.Err()
			}
			r.note("%s left out: %v", s.Name, err)
			continue
		}
		alive[s.Name] = p
		r.peers = append(r.peers, s)
	}
	for _, s := range b.opts.scenarios {
		if why := s.missing(); why != "" {
			r.note("%s left out: %s", s.name, why)
			continue
		}
		cells, err := b.scenario(ctx, s, r.peers, alive)
		if err != nil {
			return "", err
		}
		r.rows = append(r.rows, row{s, cells})
	}
	return r.String(), nil
}

func (b *bench) missing(s peers.Spec) string {
	if strings.HasPrefix(s.Name, "capgate") {
		if _, err := os.Stat(b.opts.capgate.Path); err != nil {
			return fmt.Sprintf("%v (make build)", err)
		}
	}
	return s.Missing()
}

// scenario runs all rounds of one scenario.
func (b *bench) scenario(ctx context.Context, s scenario, specs []peers.Spec,
	alive map[string]*peers.Peer) (map[string]*cell, error) {
	cells := map[string]*cell{}
	if s.http2 {
		specs = slices.DeleteFunc(slices.Clone(specs), func(p peers.Spec) bool { return p.Bytes })
	}
	if s.tls {
		specs = slices.DeleteFunc(slices.Clone(specs), func(p peers.Spec) bool { return !p.Secure })
		secure, err := b.overTLS(ctx, specs)
		for _, p := range secure {
			defer b.stopPeer(p)
		}
		if err != nil {
			return nil, err
		}
		alive = secure
	}
	for _, p := range specs {
		cells[p.Name] = &cell{}
	}
	cfg, rounds := s.cfg, b.opts.rounds
	cfg.Warm, cfg.Window = b.opts.warm, b.opts.window
	if s.fresh {
		cfg.Warm, cfg.Window, rounds = 0, 0, 1
	}
	for round := range rounds {
		var direct load.Result
		if s.direct {
			var err error
			if direct, err = b.window(ctx, nil, cfg); err != nil {
				return nil, fmt.Errorf("without a proxy: %w", err)
			}
		}
		// Another order in each round, so that nobody always comes after the same one.
		for i := range specs {
			p := specs[(i+round)%len(specs)]
			b.measure(ctx, s, cfg, direct, alive[p.Name], cells[p.Name])
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
	}
	return cells, nil
}

// overTLS starts peers that serve TLS, by the names that they have without it.
func (b *bench) overTLS(ctx context.Context, specs []peers.Spec) (map[string]*peers.Peer, error) {
	alive := map[string]*peers.Peer{}
	for _, s := range specs {
		p, err := b.startPeer(ctx, s.OverTLS(), b.env)
		if err != nil {
			return alive, err
		}
		alive[s.Name] = p
	}
	return alive, nil
}

// measure gives one peer one window.
func (b *bench) measure(ctx context.Context, s scenario, cfg load.Config, direct load.Result, p *peers.Peer, c *cell) {
	if c.failed != "" {
		return
	}
	if s.fresh {
		var err error
		if p, err = b.startPeer(ctx, p.Spec, b.env); err != nil {
			c.failed = err.Error()
			return
		}
		defer b.stopPeer(p)
	}
	window := b.window
	if s.h2load {
		window = b.h2load
	}
	res, err := window(ctx, p, cfg)
	cost, ok := 0.0, false
	if err == nil {
		cost, ok = s.cost(res, direct)
	}
	switch {
	case err != nil:
		c.failed = err.Error()
	case res.Errors > 0:
		c.failed = fmt.Sprintf("%d calls failed: %s", res.Errors, res.Problem)
	case !ok:
		c.failed = "no call ended in the window"
	default:
		c.rounds = append(c.rounds, measured{cost: cost, result: res})
	}
	progress(s.name, p.Spec.Name, c, res)
}

// progress says on standard error what has just been measured.
func progress(scenario, peer string, c *cell, res load.Result) {
	if c.failed != "" {
		fmt.Fprintf(os.Stderr, "%-16s %-8s failed: %s\n", scenario, peer, c.failed)
		return
	}
	m := c.rounds[len(c.rounds)-1]
	fmt.Fprintf(os.Stderr, "%-16s %-8s %8.3f  %8d calls  %7.1f MiB  p50 %-10v load %v backend %v others %v %s\n",
		scenario, peer, m.cost,
		res.Calls, float64(res.Bytes)/(1<<20), res.P50, res.LoadCPU.Round(1e6), res.BackendCPU.Round(1e6),
		res.OtherCPU.Round(1e6), res.Problem)
}
