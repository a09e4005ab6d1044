package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/capgate/capgate/bench/readme"
)

func main() {
	file := flag.String("out", "", "markdown `file` whose part between <!-- slowbackend --> markers gets the table")
	seed := flag.Uint64("seed", 1, "seed of the simulated arrivals and service times")
	flag.Parse()
	text := table(*seed)
	fmt.Print(text)
	if *file == "" {
		return
	}
	if err := readme.Rewrite(*file, "slowbackend", text); err != nil {
		fmt.Fprintln(os.Stderr, "slowbackend:", err)
		os.Exit(1)
	}
}

// table compares the rules for one gateway, and for several gateways that do not know each other's calls.
func table(seed uint64) string {
	var out strings.Builder
	fmt.Fprintf(&out, "Simulated on %s: %d backends with calls of %v, exponentially distributed, one of them %d times "+
		"slower, at %.0f%% of their capacity; %d calls.\n\n", time.Now().UTC().Format(time.DateOnly), backends, mean,
		slower, 100*load, counted)
	out.WriteString("| calls at a time, gateways | rule | p50 | p99 | p99.9 | p99 × the router's " +
		"| at the slow backend |\n" +
		"|---|---|---|---|---|---|---|\n")
	rules := []struct {
		name string
		of   func(*simulation) rule
	}{
		{"router: the better of two by latency × calls in flight", newRouted},
		{"oracle: the shortest wait", func(s *simulation) rule { return oracle{s} }},
		{"Prequal: probes, hot and cold", newPrequal},
	}
	for _, of := range []struct{ workers, gateways int }{{1, 1}, {1, 10}, {8, 1}, {8, 10}, {32, 1}, {32, 10}} {
		var base time.Duration
		for _, r := range rules {
			s := simulate(of.workers, of.gateways, seed, r.of)
			p99 := s.percentile(0.99)
			if base == 0 {
				base = p99
			}
			fmt.Fprintf(&out, "| %d, %d | %s | %s | %s | %s | %.2f | %.1f%% |\n", of.workers, of.gateways, r.name,
				ms(s.percentile(0.5)), ms(p99), ms(s.percentile(0.999)), float64(p99)/float64(base),
				100*float64(s.slow)/counted)
		}
	}
	return out.String()
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }
