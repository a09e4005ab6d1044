package main

import (
	"fmt"
	"io"
	"time"
)

func head(out io.Writer) {
	fmt.Fprintln(out,
		"| | simulated | probes/s | replicas that probe a backend: up, down | Redis commands/s | of them a replica | "+
			"Redis busy | published | to each replica | outcome |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|---|---|---|")
}

func row(out io.Writer, p *phase, outcome string) {
	each := float64(p.replicas)
	fmt.Fprintf(out,
		"| %s | %.0f s | %.0f | %d, %d | %.0f | %.1f | %.0f%% | %.0f notices/s, %s | %s | %s%d of %d replicas agree "+
			"|\n", p.name, p.duration.Seconds(), p.probes, p.live, p.down, p.commands, p.commands/each, 100*p.busy,
		p.events, size(p.published), size(p.delivered/each), outcome, p.agree, p.replicas)
}

// deaths describes how long all replicas took to learn of a mass failure.
func (p *phase) deaths() string {
	s := fmt.Sprintf("half of the deaths are known to all after %s, 99%% after %s, all after %s; from the first "+
		"replica to the last: half within %s, 99%% within %s, all within %s; ",
		short(at(p.known, 0.5)), short(at(p.known, 0.99)), short(at(p.known, 1)), short(at(p.between, 0.5)),
		short(at(p.between, 0.99)), short(at(p.between, 1)))
	if p.missed > 0 {
		s += fmt.Sprintf("%d are not known to all; ", p.missed)
	}
	return s
}

// recovered describes how long recovery took.
func (p *phase) recovered(what string) string {
	if p.recovery < 0 {
		return what + " not within that time; "
	}
	return what + " after " + short(p.recovery) + "; "
}

// size formats a number of bytes a second.
func size(bytes float64) string {
	if bytes < 1<<20 {
		return fmt.Sprintf("%.1f KiB/s", bytes/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB/s", bytes/(1<<20))
}

func short(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}
