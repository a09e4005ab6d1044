package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/capgate/capgate/bench/readme"
)

func main() {
	replicas := flag.Int("replicas", 200, "number of gateways, at least 2")
	backends := flag.Int("backends", 100_000, "number of backends, in fleets of ten")
	share := flag.Int("die", 30, "percentage of the backends that die at once")
	file := flag.String("out", "", "markdown `file` whose part between <!-- fleetsim --> markers gets the table")
	server := flag.Duration("server", 0, "measure the cost of each feature at a real redis-server, in windows of this "+
		"length, instead of running a simulation")
	rate := flag.Int("rate", 10, "calls a second at each replica (with --server)")
	timeout := flag.Duration("timeout", 10*time.Second, "of a command (with --server): the goroutines of all replicas "+
		"share one process")
	only := flag.String("only", "", "measure only rows whose name contains this text (with --server)")
	earlier := flag.Int("earlier", 0, "number of gateways of an earlier version, as in an upgrade (without --server)")
	flag.Parse()
	if *replicas < 2 || *backends < perFleet || *share < 0 || *share > 100 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "fleetsim: at least two replicas and ten backends are needed, and a share from 0 to "+
			"100")
		flag.Usage()
		os.Exit(2)
	}
	debug.SetGCPercent(30) // most of the heap lives as long as the process
	var text strings.Builder
	if *server > 0 {
		onServer(io.MultiWriter(os.Stdout, &text), *replicas, *rate, *server, *timeout, *only, *backends**share/100)
		return
	}
	report(io.MultiWriter(os.Stdout, &text), *replicas, *backends/perFleet*perFleet, *share, *earlier)
	if *file == "" {
		return
	}
	if err := readme.Rewrite(*file, "fleetsim", text.String()); err != nil {
		fmt.Fprintln(os.Stderr, "fleetsim:", err)
		os.Exit(1)
	}
}

// report runs the scenario and writes its table to out.
func report(out io.Writer, replicas, backends, share, earlier int) {
	began := time.Now()
	w := newSimulation(backends)
	w.earlier = earlier
	fmt.Fprintf(out, "%d replicas, %d backends in %d fleets\n\n", replicas, backends, len(w.fleets))
	head(out)
	row(out, w.begin(replicas), "")
	row(out, w.steadyState(), "")
	p := w.massFailure(share)
	row(out, p, p.deaths())
	p = w.emptyRestart()
	row(out, p, fmt.Sprintf("%s%d transitions reached routers; ", p.recovered("Redis has everything again"),
		p.transitions))
	p = w.replicasDie(max(1, replicas/10))
	row(out, p, p.recovered("they count as gone"))
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Fprintf(out, "\nThe simulation took %s and %.1f GiB of memory, %.0f MiB for each replica.\n",
		time.Since(began).Round(time.Second), float64(m.Sys)/(1<<30), float64(m.Sys)/(1<<20)/float64(replicas))
}
