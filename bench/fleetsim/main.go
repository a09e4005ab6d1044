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
	replicas := flag.Int("replicas", 200, "gateways, at least 2")
	backends := flag.Int("backends", 100_000, "backends of all fleets, ten in each")
	share := flag.Int("die", 30, "of 100 backends, how many die at once")
	file := flag.String("out", "", "markdown `file` whose part between <!-- fleetsim --> markers gets the table")
	server := flag.Duration("server", 0, "measures what features cost a real redis-server, in windows of this length, "+
		"instead of a simulation")
	rate := flag.Int("rate", 10, "calls a second at each replica, with --server")
	only := flag.String("only", "", "rows whose name has this part, with --server")
	flag.Parse()
	if *replicas < 2 || *backends < perFleet || *share < 0 || *share > 100 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "fleetsim: at least two replicas and ten backends are needed, and a share from 0 to "+
			"100")
		flag.Usage()
		os.Exit(2)
	}
	debug.SetGCPercent(30) // most of it lives as long as the process
	var text strings.Builder
	if *server > 0 {
		onServer(io.MultiWriter(os.Stdout, &text), *replicas, *rate, *server, *only)
		return
	}
	report(io.MultiWriter(os.Stdout, &text), *replicas, *backends/perFleet*perFleet, *share)
	if *file == "" {
		return
	}
	if err := readme.Rewrite(*file, "fleetsim", text.String()); err != nil {
		fmt.Fprintln(os.Stderr, "fleetsim:", err)
		os.Exit(1)
	}
}

// report tells the whole story to out.
func report(out io.Writer, replicas, backends, share int) {
	began := time.Now()
	w := newSimulation(backends)
	fmt.Fprintf(out, "%d replicas, %d backends in %d fleets\n\n", replicas, backends, len(w.fleets))
	head(out)
	row(out, w.begin(replicas), "")
	row(out, w.peace(), "")
	a := w.massFailure(share)
	row(out, a, a.tell())
	a = w.emptyRestart()
	row(out, a, fmt.Sprintf("%s%d transitions reached routers; ", a.after("Redis has everything again"), a.news))
	a = w.replicasDie(max(1, replicas/10))
	row(out, a, a.after("they count as gone"))
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	fmt.Fprintf(out, "\nThe simulation took %s and %.1f GiB of memory, %.0f MiB for each replica.\n",
		time.Since(began).Round(time.Second), float64(m.Sys)/(1<<30), float64(m.Sys)/(1<<20)/float64(replicas))
}
