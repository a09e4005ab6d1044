package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/bench/peers"
	"github.com/capgate/capgate/bench/readme"
)

// cell is the result of one peer in one scenario.
type cell struct {
	rounds []measured
	failed string // reason if there is no result
}

type measured struct {
	cost   float64
	result load.Result
	heap   heap // allocations of the proxy per call
}

// keep returns the round that is printed. "quiet" selects the round in which the rest of the machine used the least
// time. The cheapest round is often one in which a peer was not scheduled and did its work in fewer, larger pieces.
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
	r := &report{opts: b.opts, alive: map[string]*peers.Peer{}}
	for _, s := range b.opts.peers {
		if why := b.missing(s); why != "" {
			r.note("%s left out: %s", s.Name, why)
			continue
		}
		r.peers = append(r.peers, s)
	}
	all, done := 0, 0
	for _, s := range b.opts.scenarios {
		all += len(b.columns(s, r.peers))
	}
	for _, s := range b.opts.scenarios {
		done += len(b.columns(s, r.peers))
		if why := s.by.missing(); why != "" {
			r.note("%s left out: %s", s.name, why)
			continue
		}
		until := b.opts.limit * time.Duration(done) / time.Duration(max(all, 1))
		cells, err := b.scenario(ctx, s, r, b.began.Add(until))
		if err != nil {
			return "", err
		}
		r.rows = append(r.rows, row{s, cells})
	}
	r.took = time.Since(b.began)
	if b.opts.readme != "" {
		if err := readme.Rewrite(b.opts.readme, "costs", r.costs()); err != nil {
			return "", err
		}
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

// scenario runs all rounds of one scenario. Rounds after the first start only before the deadline.
func (b *bench) scenario(ctx context.Context, s scenario, r *report, until time.Time) (map[string]*cell, error) {
	cells := map[string]*cell{}
	running := map[string]*peers.Peer{}
	columns := b.columns(s, r.peers)
	for _, c := range columns {
		cells[c.name] = &cell{}
		var err error
		if running[c.name], err = b.peer(ctx, s, c, r.alive); err != nil {
			cells[c.name].failed = err.Error()
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	rounds := b.opts.rounds
	if s.fresh {
		rounds = 1
	}
	for round := range rounds {
		if round > 0 && time.Now().After(until) {
			r.note("%s has %d of %d rounds, for lack of time.", s.name, round, rounds)
			break
		}
		// The order changes in each round, so that no peer always follows the same one.
		for i := range columns {
			c := columns[(i+round)%len(columns)]
			b.measure(ctx, s, s.load(c.name), running[c.name], cells[c.name])
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
		}
	}
	return cells, nil
}

// column is a peer in one scenario.
type column struct {
	name string // of the column
	spec peers.Spec
}

// columns returns the peers that support a scenario.
func (b *bench) columns(s scenario, all []peers.Spec) (can []column) {
	for _, p := range all {
		if spec, ok := s.door.behind(p, b.opts.envoy); ok && !(s.http2 && p.Bytes) {
			can = append(can, column{p.Name, spec})
		}
	}
	return can
}

// peer returns the running peer of a column. It starts the peer at its first use.
func (b *bench) peer(ctx context.Context, s scenario, c column, alive map[string]*peers.Peer) (*peers.Peer, error) {
	name := fmt.Sprint(c.spec.Name, c.spec.TLS)
	if p := alive[name]; p != nil {
		return p, nil
	}
	start := b.startPeer
	if c.spec.Name != c.name { // the peer does not serve gRPC
		start = func(ctx context.Context, spec peers.Spec, env peers.Env) (*peers.Peer, error) {
			return b.startPeerFor(ctx, spec, env, s.load(c.name))
		}
	}
	p, err := start(ctx, c.spec, b.env)
	if err == nil {
		alive[name] = p
	}
	return p, err
}

// measure runs one window against a peer.
func (b *bench) measure(ctx context.Context, s scenario, cfg load.Config, p *peers.Peer, c *cell) {
	if c.failed != "" {
		return
	}
	cfg.Warm, cfg.Window = b.opts.warm, b.opts.window
	if s.fresh {
		cfg.Warm, cfg.Window = 0, 0
		var err error
		if p, err = b.startPeer(ctx, p.Spec, b.env); err != nil {
			c.failed = err.Error()
			return
		}
		defer b.stopPeer(p)
	}
	before := heapOf(ctx, p)
	window := b.window
	if s.by != "" {
		window = s.by.window(b)
	}
	res, err := window(ctx, p, cfg)
	cost, ok := 0.0, false
	if err == nil {
		cost, ok = s.cost(res)
	}
	switch {
	case err != nil:
		c.failed = err.Error()
	case res.Errors > 0:
		c.failed = fmt.Sprintf("%d calls of %d failed: %s", res.Errors, res.Total+res.Errors, res.Problem)
	case !ok:
		c.failed = "no call ended in the window"
	default:
		c.rounds = append(c.rounds, measured{cost: cost, result: res,
			heap: heapOf(ctx, p).since(before, float64(res.Total))})
	}
	progress(s.name, p.Spec.Name, c, res)
}

// progress prints the last measurement to standard error.
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
