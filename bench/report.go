package main

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/bench/peers"
	"github.com/capgate/capgate/bench/proc"
)

// report formats the results as Markdown.
type report struct {
	opts  options
	peers []peers.Spec
	rows  []row
	notes []string
	alive map[string]*peers.Peer // by name and TLS
	took  time.Duration
}

type row struct {
	scenario scenario
	cells    map[string]*cell
}

func (r *report) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// String returns the results section of the README.
func (r *report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d rounds of %v, the %s one of each, in %v.\n\n", machine(), r.opts.rounds, r.opts.window,
		r.opts.keep, r.took.Round(time.Second))
	r.overview(&b)
	r.judgement(&b)
	r.agreement(&b)
	r.negotiated(&b)
	for _, row := range r.rows {
		r.details(&b, row)
	}
	for _, n := range r.notes {
		fmt.Fprintf(&b, "- %s\n", strings.ReplaceAll(n, "\n", " "))
	}
	return b.String()
}

// overview prints a table with a row for each scenario and a column for each peer.
func (r *report) overview(b *strings.Builder) {
	b.WriteString("| |")
	for _, p := range r.peers {
		fmt.Fprintf(b, " %s |", p.Title)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(r.peers)) + "\n")
	for _, row := range r.rows {
		fmt.Fprintf(b, "| %s: %s |", row.scenario.title, row.scenario.figure)
		for _, p := range r.peers {
			fmt.Fprintf(b, " %s |", r.text(row, p.Name))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

func (r *report) judgement(b *strings.Builder) {
	var lines strings.Builder
	for _, g := range goals() {
		if v, ok := r.judge(g); ok {
			fmt.Fprintf(&lines, "| %s | %.2f %s | %.2f | %s |\n", v.title, g.atMost, v.against, v.got,
				goalReached(v.got, g.atMost))
		}
	}
	if lines.Len() > 0 {
		fmt.Fprintf(b, "| goal of %s | at most | measured | |\n|---|---|---|---|\n%s\n",
			strings.Trim(r.title(r.judged()), "*"), lines.String())
	}
}

// negotiated lists the parameters that the handshakes' connections negotiated.
func (r *report) negotiated(b *strings.Builder) {
	for _, row := range r.rows {
		if row.scenario.cfg.Mode != load.Handshakes {
			continue
		}
		var agreed []string
		with := map[string][]string{}
		for _, p := range r.peers {
			if c := row.cells[p.Name]; c != nil && len(c.rounds) > 0 {
				what := c.rounds[0].result.Negotiated
				if with[what] == nil {
					agreed = append(agreed, what)
				}
				with[what] = append(with[what], strings.Trim(p.Title, "*"))
			}
		}
		b.WriteString("The handshakes agreed on")
		for i, what := range agreed {
			fmt.Fprintf(b, "%s %s (%s)", map[bool]string{true: ",", false: ""}[i > 0], what,
				strings.Join(with[what], ", "))
		}
		b.WriteString(". None was resumed.\n\n")
	}
}

// details prints one scenario's figures with their ratios to the references.
func (r *report) details(b *strings.Builder, row row) {
	references := []string{"haproxy", r.reference("tcp"), "envoy", "grpc-go"}
	fmt.Fprintf(b, "**%s** (%s)\n\n| | %s |", row.scenario.title, row.scenario.name, row.scenario.figure)
	for _, name := range references {
		fmt.Fprintf(b, " × %s |", name)
	}
	b.WriteString(" done | proxy busy | p50 / p99 | allocations | rounds | others busy |\n" +
		"|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, p := range r.peers {
		c := row.cells[p.Name]
		if c == nil {
			continue
		}
		m, ok := c.keep(r.opts.keep)
		if !ok || c.failed != "" {
			fmt.Fprintf(b, "| %s | failed | | | | | | | | | | |\n", p.Title)
			r.note("%s, %s: %s", row.scenario.name, p.Name, c.failed)
			continue
		}
		fmt.Fprintf(b, "| %s | %s |", p.Title, number(m.cost))
		for _, name := range references {
			fmt.Fprintf(b, " %s |", r.ratio(row, m.cost, name))
		}
		fmt.Fprintf(b, " %s | %s | %s | %s | %s | %s |\n", row.scenario.rate(m.result),
			share(m.result.ProxyCPU, m.result.Seconds), latency(m.result), m.heap, spread(c),
			share(m.result.OtherCPU+m.result.Stolen, m.result.Seconds))
	}
	b.WriteString("\n")
}

func (r *report) ratio(row row, cost float64, peer string) string {
	other, ok := r.figure(row, peer)
	if !ok || other <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", cost/other)
}

// reference returns the peer that serves as the reference: haproxy for the TCP relay, or else the relay in Go.
func (r *report) reference(name string) string {
	if name != "tcp" {
		return name
	}
	for _, p := range r.peers {
		if p.Name == "tcp" {
			return "tcp"
		}
	}
	return "tcp-go"
}

func (r *report) title(peer string) string {
	for _, p := range r.peers {
		if p.Name == peer {
			return p.Title
		}
	}
	return peer
}

func (r *report) figure(row row, peer string) (float64, bool) {
	c := row.cells[peer]
	if c == nil || c.failed != "" {
		return 0, false
	}
	m, ok := c.keep(r.opts.keep)
	return m.cost, ok
}

func (r *report) text(row row, peer string) string {
	if row.cells[peer] == nil {
		return "–"
	}
	f, ok := r.figure(row, peer)
	if !ok {
		return "failed"
	}
	return number(f)
}

// number formats three significant digits.
func number(f float64) string {
	switch {
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	case f >= 1:
		return fmt.Sprintf("%.2f", f)
	}
	return fmt.Sprintf("%.3f", f)
}

func spread(c *cell) string {
	low, high := c.rounds[0].cost, c.rounds[0].cost
	for _, m := range c.rounds {
		low, high = min(low, m.cost), max(high, m.cost)
	}
	return number(low) + "–" + number(high)
}

func share(d time.Duration, seconds float64) string {
	if seconds < 0.01 {
		return "–"
	}
	return fmt.Sprintf("%.0f%%", 100*d.Seconds()/seconds)
}

func calls(r load.Result) string  { return fmt.Sprintf("%.0f calls/s", float64(r.Calls)/r.Seconds) }
func chunks(r load.Result) string { return fmt.Sprintf("%.0f chunks/s", chunkCount(r)/r.Seconds) }
func volume(r load.Result) string { return fmt.Sprintf("%.2f GiB/s", float64(r.Bytes)/gib/r.Seconds) }
func opened(r load.Result) string {
	if r.Opened == 0 {
		return fmt.Sprintf("%d connections", r.OpenedConns)
	}
	return fmt.Sprintf("%d on %d connections", r.Opened, r.OpenedConns)
}
func handshakesDone(r load.Result) string {
	return fmt.Sprintf("%.0f connections/s", float64(r.Calls)/r.Seconds)
}
func latency(r load.Result) string {
	if r.P50 == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f / %.0f µs", micros(r.P50), micros(r.P99))
}

// machine describes the machine and the date.
func machine() string {
	var u syscall.Utsname
	kernel := ""
	if syscall.Uname(&u) == nil {
		for _, c := range u.Release {
			if c == 0 {
				break
			}
			kernel += string(rune(c))
		}
	}
	return fmt.Sprintf("%s: %s, %d cores, Linux %s, %s", time.Now().UTC().Format(time.DateOnly), proc.Model(),
		runtime.NumCPU(), kernel, runtime.Version())
}
