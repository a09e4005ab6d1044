package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/bench/peers"
	"github.com/capgate/capgate/bench/readme"
	"github.com/capgate/capgate/internal/testkit/check"
)

func TestRewriteReplacesOnlyItsPart(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "README.md")
	check.Must(t, os.WriteFile(file, []byte("a\n<!-- results -->\nold\n<!-- results -->\nb\n"), 0o600))
	for range 2 {
		check.Must(t, readme.Rewrite(file, "results", "new\n"))
	}
	got, err := os.ReadFile(file)
	if want := "a\n<!-- results -->\n\nnew\n\n<!-- results -->\nb\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if err := readme.Rewrite(file, "growth", "x"); err == nil {
		t.Error("no error for a file without the markers")
	}
}

func TestREADMEHasMarkers(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("README.md")
	check.Must(t, err)
	for _, mark := range []string{"<!-- results -->\n", "<!-- growth -->\n", "<!-- tables -->\n", "<!-- policy -->\n",
		"<!-- tenants -->\n", "<!-- redis -->\n", "<!-- json -->\n"} {
		if strings.Count(string(b), mark) != 2 {
			t.Errorf("README.md must have two lines %q", mark)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for args, ok := range map[string]bool{
		"":                            true,
		"--scenarios idle,single":     true,
		"--peers tcp-go --rounds 1":   true,
		"--growth --window 1s":        true,
		"--tables":                    true,
		"--json --envoy v/bin/envoy":  true,
		"--peers envoy":               true,
		"--redis --window 5s":         true,
		"--scenarios nothing":         false,
		"--peers somebody":            false,
		"--rounds 0":                  false,
		"--window 1h":                 false,
		"--keep best":                 false,
		"--idle-streams 100000000000": false,
		"stray":                       false,
	} {
		if _, err := parseOptions(strings.Fields(args)); (err == nil) != ok {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// reportOf makes a report in which each round costs a proxy what it says, for 1,000 calls.
func reportOf(costs map[string][]time.Duration) *report {
	r := &report{opts: options{keep: "quiet"}}
	saturated := scenarios(idleOptions{})[0]
	cells := map[string]*cell{}
	for _, p := range allPeers(peers.Capgate{}, "envoy", "") {
		rounds, ok := costs[p.Name]
		if !ok {
			continue
		}
		r.peers = append(r.peers, p)
		cells[p.Name] = &cell{}
		for _, cpu := range rounds {
			res := load.Result{Seconds: 1, Calls: 1000, ProxyCPU: cpu}
			cost, _ := saturated.cost(res, load.Result{})
			cells[p.Name].rounds = append(cells[p.Name].rounds, measured{cost: cost, result: res})
		}
	}
	r.rows = []row{{saturated, cells}}
	return r
}

func TestReportKeepsTheLeastDisturbedRoundAndJudges(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	got := reportOf(map[string][]time.Duration{
		"capgate": {9 * ms, 2 * ms, 3 * ms}, "haproxy": {10 * ms, 12 * ms}, "envoy": {25 * ms}, "grpc-go": {20 * ms},
		"tcp-go": {1 * ms},
	}).String()
	for _, want := range []string{
		"| unary 1 KiB, saturated: µs CPU a call | 1.00 | 2.00 | 10.0 | 25.0 | 20.0 |",
		"| unary 1 KiB, saturated | 0.25 × haproxy h2 | 0.20 | reached |",
		"| unary 1 KiB, saturated | 0.09 × Envoy | 0.08 | reached |",
		"| unary 1 KiB, saturated | 0.08 × grpc-go proxy | 0.10 | **missed by 25%** |",
		"| **capgate** | 2.00 | 0.20 | 2.00 | 0.08 | 0.10 | 1000 calls/s |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("report lacks %q:\n%s", want, got)
		}
	}
}
