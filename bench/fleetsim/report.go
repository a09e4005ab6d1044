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

func row(out io.Writer, a *act, outcome string) {
	each := float64(a.replicas)
	fmt.Fprintf(out,
		"| %s | %.0f s | %.0f | %d, %d | %.0f | %.1f | %.0f%% | %.0f notices/s, %s | %s | %s%d of %d replicas agree "+
			"|\n", a.name, a.lasts.Seconds(), a.probes, a.live, a.down, a.commands, a.commands/each, 100*a.busy,
		a.notices, size(a.published), size(a.delivered/each), outcome, a.agree, a.replicas)
}

// tell says how what all replicas know of a mass failure came about.
func (a *act) tell() string {
	s := fmt.Sprintf("half of the deaths are known to all after %s, 99%% after %s, all after %s; from the first "+
		"replica to the last: half within %s, 99%% within %s, all within %s; ",
		short(at(a.known, 0.5)), short(at(a.known, 0.99)), short(at(a.known, 1)), short(at(a.between, 0.5)),
		short(at(a.between, 0.99)), short(at(a.between, 1)))
	if a.missed > 0 {
		s += fmt.Sprintf("%d are not known to all; ", a.missed)
	}
	return s
}

// after says when all was well again.
func (a *act) after(what string) string {
	if a.well < 0 {
		return what + " not within that time; "
	}
	return what + " after " + short(a.well) + "; "
}

// size prints bytes a second.
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
