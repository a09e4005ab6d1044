package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/bench/peers"
)

// variant is a point of a curve: a configuration of capgate and a load.
type variant struct {
	curve, point string
	capabilities int
	procs        int
	tls          bool
	cfg          load.Config
}

// inflight is the number of calls in flight on all connections together.
const inflight = 256

// variants returns the curves. In each of them, only one parameter changes.
func variants() []variant {
	unary := func(conns, streams, size int) load.Config {
		return load.Config{Mode: load.Closed, Method: load.Invoke, Conns: conns, Streams: streams, RequestSize: size,
			Work: h2.Work{Kind: h2.ReplyWork, Count: 1, Size: size}}
	}
	paced := unary(8, 0, 1024)
	paced.Mode, paced.Rate = load.Open, 5000
	var all []variant
	for _, n := range []int{1, 100, 10000} {
		cfg := unary(8, inflight/8, 1024)
		cfg.Capabilities = n
		all = append(all, variant{curve: "capabilities, saturated", point: fmt.Sprint(n), capabilities: n, cfg: cfg})
		cfg = paced
		cfg.Capabilities = n
		all = append(all, variant{curve: "capabilities, 5,000/s", point: fmt.Sprint(n), capabilities: n, cfg: cfg})
	}
	for _, n := range []int{1, 10, 100, 1000} {
		all = append(all, variant{curve: "client connections, 1,000 calls in flight", point: fmt.Sprint(n),
			cfg: unary(n, 1000/n, 1024)})
		cfg := paced
		cfg.Conns = n
		all = append(all, variant{curve: "client connections, 5,000/s", point: fmt.Sprint(n), cfg: cfg})
	}
	for _, kib := range []int{1, 4, 16, 64, 256, 1024, 4096} {
		all = append(all, variant{curve: "message size both ways, 8 calls in flight", point: fmt.Sprintf("%d KiB", kib),
			cfg: unary(4, 2, kib<<10)})
	}
	for _, tls := range []bool{false, true} {
		point := map[bool]string{false: "off", true: "on"}[tls]
		all = append(all, variant{curve: "TLS, saturated", point: point, tls: tls, cfg: unary(8, inflight/8, 1024)},
			variant{curve: "TLS, 5,000/s", point: point, tls: tls, cfg: paced})
	}
	for _, n := range []int{1, 2} {
		all = append(all, variant{curve: "GOMAXPROCS, saturated", point: fmt.Sprint(n), procs: n,
			cfg: unary(8, inflight/8, 1024)},
			variant{curve: "GOMAXPROCS, 5,000/s", point: fmt.Sprint(n), procs: n, cfg: paced})
	}
	return all
}

// needsCapgate reports whether only capgate can run the variant.
func (v variant) needsCapgate() bool { return v.capabilities > 1 || v.procs > 1 || v.tls }

// setting holds the parameters with which a process was started.
type setting struct {
	peer         string
	capabilities int
	procs        int
	tls          bool
}

// growth measures the curves, interleaved, and prints them.
func (b *bench) growth(ctx context.Context) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "%s, %d rounds of %v, the %s one of each. CPU is the proxy's.\n\n", machine(), b.opts.rounds,
		b.opts.window, b.opts.keep)
	for _, s := range b.opts.peers {
		if why := b.missing(s); why != "" {
			fmt.Fprintf(&out, "%s left out: %s\n", s.Name, why)
			continue
		}
		if err := b.growthOf(ctx, s, &out); err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

func (b *bench) growthOf(ctx context.Context, s peers.Spec, out *strings.Builder) error {
	all := variants()
	cells := make([]cell, len(all))
	alive := map[setting]*peers.Peer{}
	for range b.opts.rounds {
		for i, v := range all {
			if s.Name != "capgate" && v.needsCapgate() {
				continue
			}
			p, err := b.peerFor(ctx, s, v, alive)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				cells[i].failed = err.Error()
				continue
			}
			cfg := v.cfg
			b.measure(ctx, scenario{name: v.curve + " " + v.point, cost: perCall}, cfg, p, &cells[i])
		}
	}
	for _, p := range alive {
		b.stopPeer(p)
	}
	b.printGrowth(s, all, cells, out)
	return nil
}

// peerFor returns a process with the variant's setting. It starts the process at its first use.
func (b *bench) peerFor(ctx context.Context, s peers.Spec, v variant, alive map[setting]*peers.Peer) (*peers.Peer,
	error) {
	key := setting{s.Name, max(v.capabilities, 1), max(v.procs, 1), v.tls}
	if p := alive[key]; p != nil {
		return p, nil
	}
	env := b.env
	env.Capgate.Capabilities, env.Capgate.Procs, env.Capgate.TLS = key.capabilities, key.procs, key.tls
	if key.procs > 1 {
		env.Cores = nil // the proxy needs both cores and shares one with the load generator
	}
	if s.Name == "capgate" {
		s = peers.CapgateSpec(env.Capgate)
	}
	p, err := b.startPeer(ctx, s, env)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return nil, err
	}
	alive[key] = p
	return p, nil
}

// printGrowth prints each curve with the cost of a point relative to the first.
func (b *bench) printGrowth(s peers.Spec, all []variant, cells []cell, out *strings.Builder) {
	var curves []string
	points := map[string][]int{}
	for i, v := range all {
		if s.Name != "capgate" && v.needsCapgate() {
			continue
		}
		if len(points[v.curve]) == 0 {
			curves = append(curves, v.curve)
		}
		points[v.curve] = append(points[v.curve], i)
	}
	for _, curve := range curves {
		if len(points[curve]) < 2 {
			continue // no curve
		}
		fmt.Fprintf(out,
			"| %s: %s | µs CPU a call | × first | s CPU a GiB | calls/s | p50 / p99 | others busy |\n"+
				"|---|---|---|---|---|---|---|\n", s.Title, curve)
		first := 0.0
		for _, i := range points[curve] {
			m, ok := cells[i].keep(b.opts.keep)
			if !ok {
				fmt.Fprintf(out, "| %s | failed: %s | | | | | |\n", all[i].point,
					strings.ReplaceAll(cells[i].failed, "\n", " "))
				continue
			}
			if first == 0 {
				first = m.cost
			}
			// A call carries its size in both directions; the result counts one.
			perByte := m.result.ProxyCPU.Seconds() / (2 * float64(m.result.Bytes) / gib)
			fmt.Fprintf(out, "| %s | %s | %.2f | %s | %.0f | %s | %s |\n", all[i].point, number(m.cost), m.cost/first,
				number(perByte),
				float64(m.result.Calls)/m.result.Seconds, latency(m.result),
				share(m.result.OtherCPU+m.result.Stolen, m.result.Seconds))
		}
		out.WriteString("\n")
	}
}
