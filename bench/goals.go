package main

import (
	"fmt"
	"strings"
)

// goal is an upper bound for capgate with everything on in a scenario: a multiple of a peer's figure, or an absolute
// figure if there is no peer.
type goal struct {
	scenario string
	peer     string
	atMost   float64
	of       string // the peer's scenario, if it is a different one
}

func goals() []goal {
	all := []goal{
		{scenario: "unary-saturated", peer: "haproxy", atMost: 0.33},
		{scenario: "unary-saturated", peer: "capgate", atMost: 1.1},
		{scenario: "unary-paced", peer: "haproxy", atMost: 0.85},
		{scenario: "unary-paced", peer: "tcp", atMost: 1.1},
		{scenario: "bursts", peer: "haproxy", atMost: 0.5},
		{scenario: "chunks-paced", peer: "tcp", atMost: 1.1},
		{scenario: "unary-tls", peer: "haproxy", atMost: 0.3},
		{scenario: "handshakes", peer: "haproxy", atMost: 0.9},
		{scenario: "single", peer: "tcp", atMost: 1.1},
		{scenario: "download", peer: "tcp", atMost: 1.25},
		{scenario: "upload", peer: "tcp", atMost: 1.25},
		{scenario: "idle", atMost: 1},
		{scenario: "idle-conn", atMost: 8},
		{scenario: "idle-conn-tls", atMost: 40},
	}
	for _, version := range []string{"-h1", "-h2"} {
		all = append(all,
			goal{scenario: string(invoke) + version, peer: "envoy", atMost: 0.45},
			goal{scenario: string(perTool) + version, peer: "envoy", atMost: 0.45, of: string(invoke) + version},
			goal{scenario: string(connect) + version, peer: "envoy", atMost: 0.5, of: string(invoke) + version},
			goal{scenario: string(mcp) + version, peer: "capgate-on", atMost: 1.15, of: string(perTool) + version})
	}
	return all
}

// judged returns the column that the goals apply to: everything on, if it was measured.
func (r *report) judged() string {
	for _, p := range r.peers {
		if p.Name == "capgate-on" {
			return p.Name
		}
	}
	return "capgate"
}

// verdict is the result of a goal in a run.
type verdict struct {
	title   string
	against string // what got is a multiple of
	got     float64
}

// judge compares the figures with a goal. ok is false if a figure is missing.
func (r *report) judge(g goal) (v verdict, ok bool) {
	row, ok := r.row(g.scenario)
	if !ok {
		return v, false
	}
	own, ok := r.figure(row, r.judged())
	if !ok || g.peer == "" {
		return verdict{row.scenario.title, row.scenario.figure, own}, ok
	}
	peer, other := r.reference(g.peer), row
	if peer == "capgate-on" {
		peer = r.judged()
	}
	against := strings.Trim(r.title(peer), "*")
	if g.of != "" {
		if other, ok = r.row(g.of); !ok {
			return v, false
		}
		against = "(" + other.scenario.title + ")"
		if peer != r.judged() {
			against = r.title(peer) + " " + against
		}
	}
	cost, ok := r.figure(other, peer)
	if !ok || cost <= 0 {
		return v, false
	}
	return verdict{row.scenario.title, "× " + against, own / cost}, true
}

func (r *report) row(name string) (row, bool) {
	for _, row := range r.rows {
		if row.scenario.name == name {
			return row, true
		}
	}
	return row{}, false
}

func goalReached(got, atMost float64) string {
	if got > atMost {
		return fmt.Sprintf("**missed by %.0f%%**", 100*(got/atMost-1))
	}
	return "reached"
}

// tolerance is the largest relative difference between the ratios of two generators that agree.
const tolerance = 0.15

// agreement compares the ratios measured by package load with those of other generators.
func (r *report) agreement(b *strings.Builder) {
	var lines strings.Builder
	for _, second := range r.rows {
		first, ok := r.row(second.scenario.repeats)
		if !ok {
			continue
		}
		reference := "haproxy"
		if first.scenario.kind != "" {
			reference = "envoy"
		}
		for _, column := range []string{"capgate", "capgate-on"} {
			var ratios []float64
			for _, row := range []row{first, second} {
				own, ok1 := r.figure(row, column)
				other, ok2 := r.figure(row, reference)
				if ok1 && ok2 && other > 0 {
					ratios = append(ratios, own/other)
				}
			}
			if len(ratios) < 2 || ratios[1] <= 0 {
				continue
			}
			apart, within := ratios[0]/ratios[1], "yes"
			if apart > 1+tolerance || apart < 1/(1+tolerance) {
				within = "**no**"
			}
			fmt.Fprintf(&lines, "| %s: %s × %s | %.2f | %s: %.2f | %.2f | %s |\n", first.scenario.title,
				strings.Trim(r.title(column), "*"), r.title(reference), ratios[0], second.scenario.by, ratios[1], apart,
				within)
		}
	}
	if lines.Len() > 0 {
		fmt.Fprintf(b, "| two generators | bench's own | the other | own / other | within %.0f%% |\n"+
			"|---|---|---|---|---|\n%s\n", 100*tolerance, lines.String())
	}
}
