package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/capgate/capgate/bench/peers"
)

// mcpAtMost is the goal: the cost of tools/call of MCP as a multiple of that of the same call over the JSON API.
const mcpAtMost = 1.15

// mcpEras lists the columns of the table. The first one is the base of the ratios.
func mcpEras() []kind { return []kind{perTool, mcp, mcpLegacy} }

// mcp compares tools/call of MCP with a tool's route of the JSON API. In each round, every build of capgate has one
// window for each kind of request and version of HTTP, one after the other.
func (b *bench) mcp(ctx context.Context) (string, error) {
	type place struct{ scenario, peer string }
	alive, cells := map[string]*peers.Peer{}, map[place]*cell{}
	var measured []scenario
	for _, s := range scenarios(b.opts.idle) {
		if s.by == "" && slices.Contains(mcpEras(), s.kind) {
			measured = append(measured, s)
		}
	}
	columns := slices.DeleteFunc(slices.Clone(b.opts.peers), func(p peers.Spec) bool { return !isCapgate(p.Name) })
	for round := range b.opts.rounds {
		for i := range measured {
			s := measured[(i+round)%len(measured)]
			for _, of := range columns {
				at := place{s.name, of.Name}
				if cells[at] == nil {
					cells[at] = &cell{}
				}
				p, err := b.peer(ctx, s, column{of.Name, of}, alive)
				if err != nil {
					return "", err
				}
				b.measure(ctx, s, s.load(of.Name), p, cells[at])
				if ctx.Err() != nil {
					return "", ctx.Err()
				}
			}
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s, %d rounds of %v, the %s one of each.\n\n| µs CPU a request | JSON, a tool's route | MCP "+
		"2026-07-28 | × JSON | MCP 2025-11-25 | × JSON | at most %.2f | allocations | others busy |\n"+
		"|---|---|---|---|---|---|---|---|---|\n", machine(), b.opts.rounds, b.opts.window, b.opts.keep, mcpAtMost)
	for _, of := range columns {
		for _, version := range []string{"h1", "h2"} {
			var all []*cell
			for _, k := range mcpEras() {
				all = append(all, cells[place{string(k) + "-" + version, of.Name}])
			}
			title := of.Title + ", " + map[string]string{"h1": "HTTP/1.1", "h2": "HTTP/2"}[version]
			if err := b.mcpRow(&out, title, all); err != nil {
				return "", err
			}
		}
	}
	return out.String(), nil
}

// mcpRow prints the costs of one build over one version of HTTP.
func (b *bench) mcpRow(out *strings.Builder, title string, all []*cell) error {
	var kept []measured
	for _, c := range all {
		m, ok := c.keep(b.opts.keep)
		if !ok || c.failed != "" {
			return fmt.Errorf("%s: %s", title, c.failed)
		}
		if m.result.Bytes < m.result.Calls*jsonSize { // in old revisions, a JSON-RPC error has the status 200
			return fmt.Errorf("%s: responses have %d bytes", title, m.result.Bytes/max(m.result.Calls, 1))
		}
		kept = append(kept, m)
	}
	json, worst, busy := kept[0].cost, 0.0, kept[0].result
	var heaps []string
	fmt.Fprintf(out, "| %s | %s |", title, number(json))
	for i, m := range kept {
		heaps = append(heaps, m.heap.String())
		if m.result.OtherCPU > busy.OtherCPU {
			busy = m.result
		}
		if i > 0 {
			fmt.Fprintf(out, " %s | %.2f |", number(m.cost), m.cost/json)
			worst = max(worst, m.cost/json)
		}
	}
	fmt.Fprintf(out, " %s | %s | %s |\n", goalReached(worst, mcpAtMost), strings.Join(heaps, "; "),
		share(busy.OtherCPU+busy.Stolen, busy.Seconds))
	return nil
}
