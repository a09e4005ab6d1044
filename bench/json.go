package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/load"
	"github.com/capgate/capgate/bench/peers"
)

// jsonGoal is how much of the processor time of Envoy's transcoder a JSON request may cost capgate.
const jsonGoal = 0.5

// jsonRoute is a way to call the backend's Invoke with JSON.
type jsonRoute struct {
	title string
	peer  peers.Spec
	path  string
	body  string
	typ   string // of the body, default application/json
	// header has further fields of the request, names in lower case.
	header [][2]string
}

// comparison says which route others are compared with, and which of them has to reach the goal.
type comparison struct {
	head         string // of the column
	goal         float64
	base, judged func(jsonRoute) bool
}

// withEnvoy compares JSON requests with Envoy's transcoder.
func withEnvoy() comparison {
	return comparison{head: "Envoy", goal: jsonGoal,
		base:   func(r jsonRoute) bool { return r.peer.Name == "envoy-json" },
		judged: func(r jsonRoute) bool { return r.peer.Name == "capgate" }}
}

const jsonSize = 1024 // bytes of arguments, and of the result

func jsonRoutes(o options) []jsonRoute {
	work := h2.Work{Kind: h2.ReplyWork, Count: 1, Size: jsonSize}
	frame := len(`{"text":""}`)
	args := `{"text":"` + strings.Repeat("x", jsonSize-frame) + `"}`
	const base = "/v1/capabilities/weather"
	capgate := peers.CapgateSpec(o.capgate)
	// Transcoders that do not know the protocol take and give bytes as base64.
	mapped := fmt.Sprintf(`{"tool_name":%q,"args_json":%q,"session_id":"bench-session-1"}`,
		work, base64.StdEncoding.EncodeToString([]byte(args)))
	routes := []jsonRoute{
		{title: "**capgate**, invoke", peer: capgate, path: base + "/invoke",
			body: fmt.Sprintf(`{"tool_name":%q,"args":%s,"session_id":"bench-session-1"}`, work, args)},
		{title: "**capgate**, a tool's route", peer: capgate, path: base + "/tools/" + work.String(), body: args},
		{title: "Envoy's transcoder", peer: peers.EnvoyTranscoder(o.envoy), path: base + "/invoke", body: mapped},
		{title: "grpc-gateway", peer: peers.GRPCGateway(), path: base + "/invoke", body: mapped},
	}
	routes = append(routes, webRoutes(capgate, work, args)...)
	if o.before != "" {
		for _, before := range append(routes[:1:1], webRoutes(capgate, work, args)...) {
			before.title, before.peer = "before: "+before.title, peers.Before(capgate, o.before)
			routes = append(routes, before)
		}
	}
	return routes
}

// framePrefix is the length of the flags and the length of a message.
const framePrefix = 5

// webRoutes are the same call over Connect and gRPC-Web.
func webRoutes(capgate peers.Spec, work h2.Work, args string) []jsonRoute {
	text := fmt.Sprintf(`{"toolName":%q,"argsJson":%q,"sessionId":"bench-session-1","capabilityId":"weather"}`, work,
		base64.StdEncoding.EncodeToString([]byte(args)))
	frame := string(h2.InvokeRequest(work, "weather", "bench-session-1", len(args)))
	return []jsonRoute{
		{title: "**capgate**, JSON over Connect", peer: capgate, path: h2.PathInvoke, body: text},
		{title: "**capgate**, Connect", peer: capgate, path: h2.PathInvoke, body: frame[framePrefix:],
			typ: "application/proto"},
		{title: "**capgate**, gRPC-Web", peer: capgate, path: h2.PathInvoke, body: frame,
			typ: "application/grpc-web+proto"},
		{title: "**capgate**, gRPC-Web as text", peer: capgate, path: h2.PathInvoke,
			body: base64.StdEncoding.EncodeToString([]byte(frame)), typ: "application/grpc-web-text"},
	}
}

// jsonTable is what was measured over one protocol, a cell for each route.
type jsonTable struct {
	title  string
	by     comparison
	routes []jsonRoute
	cells  []*cell
	base   int // which of the routes others are compared with; -1: it is not there
}

// json measures JSON requests, saturated, interleaved.
func (b *bench) json(ctx context.Context) (string, error) {
	return b.requests(ctx, "JSON", jsonRoutes(b.opts), withEnvoy())
}

// requests measures each route over HTTP/1.1 and HTTP/2. what is the kind of requests.
func (b *bench) requests(ctx context.Context, what string, all []jsonRoute, by comparison) (string, error) {
	var notes strings.Builder
	alive := map[string]*peers.Peer{}
	var routes []jsonRoute
	for _, r := range all {
		if why := b.missing(r.peer); why != "" {
			fmt.Fprintf(&notes, "- %s left out: %s\n", r.title, why)
			continue
		}
		if alive[r.peer.Name] == nil {
			p, err := b.startPeerFor(ctx, r.peer, b.env, jsonLoad(r, true))
			if err != nil {
				return "", err
			}
			alive[r.peer.Name] = p
		}
		routes = append(routes, r)
	}
	tables := []jsonTable{newJSONTable(what+" over HTTP/1.1", routes, by),
		newJSONTable(what+" over HTTP/2", routes, by)}
	for round := range b.opts.rounds {
		for i, t := range tables {
			for at := range routes {
				at = (at + round) % len(routes)
				b.jsonWindow(ctx, alive[routes[at].peer.Name], jsonLoad(routes[at], i == 0), t, at)
				if ctx.Err() != nil {
					return "", ctx.Err()
				}
			}
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s, %d rounds of %v, the %s one of each. %d requests in flight, "+
		"%d bytes of arguments and of a result.\n\n",
		machine(), b.opts.rounds, b.opts.window, b.opts.keep, jsonInFlight, jsonSize)
	for _, t := range tables {
		t.write(&out, b.opts.keep)
	}
	out.WriteString(notes.String())
	return out.String(), nil
}

func newJSONTable(title string, routes []jsonRoute, by comparison) jsonTable {
	t := jsonTable{title: title, by: by, routes: routes, base: -1}
	for i, r := range routes {
		t.cells = append(t.cells, &cell{})
		if by.base(r) {
			t.base = i
		}
	}
	return t
}

const jsonInFlight = 64

func jsonLoad(r jsonRoute, http1 bool) load.Config {
	cfg := load.Config{Mode: load.Closed, JSON: &load.JSON{Path: r.path, Body: []byte(r.body), Type: r.typ,
		Header: r.header, HTTP1: http1}}
	if http1 {
		cfg.Conns = jsonInFlight
	} else {
		cfg.Conns = 8
		cfg.Streams = jsonInFlight / cfg.Conns
	}
	return cfg
}

// jsonWindow gives one route one window.
func (b *bench) jsonWindow(ctx context.Context, p *peers.Peer, cfg load.Config, t jsonTable, at int) {
	c := t.cells[at]
	if c.failed != "" {
		return
	}
	cfg.Warm, cfg.Window = b.opts.warm, b.opts.window
	before, counted := heapOf(ctx, p)
	res, err := b.window(ctx, p, cfg)
	after, _ := heapOf(ctx, p)
	switch {
	case err != nil:
		c.failed = err.Error()
	case res.Errors > 0:
		c.failed = fmt.Sprintf("%d requests of %d failed: %s", res.Errors, res.Total+res.Errors, res.Problem)
	case res.Calls == 0:
		c.failed = "no request ended in the window"
	default:
		m := measured{cost: micros(res.ProxyCPU) / float64(res.Calls), result: res}
		if counted {
			m.heap = after.since(before, float64(res.Total))
		}
		c.rounds = append(c.rounds, m)
	}
	progress(t.title, p.Spec.Name, c, res)
}

func (t jsonTable) write(out *strings.Builder, keep string) {
	fmt.Fprintf(out,
		"| %s | µs CPU a request | × %s | goal %.2f | rounds | allocations | their bytes | done |"+
			" proxy busy | p50 / p99 | others busy |\n"+
			"|---|---|---|---|---|---|---|---|---|---|---|\n", t.title, t.by.head, t.by.goal)
	var base measured
	known := false
	if t.base >= 0 && t.cells[t.base].failed == "" {
		base, known = t.cells[t.base].keep(keep)
	}
	for i, r := range t.routes {
		m, ok := t.cells[i].keep(keep)
		if !ok || t.cells[i].failed != "" {
			fmt.Fprintf(out, "| %s | failed: %s | | | | | | | | | |\n", r.title,
				strings.ReplaceAll(t.cells[i].failed, "\n", " "))
			continue
		}
		ratio, verdict := "–", ""
		if known {
			ratio = fmt.Sprintf("%.2f", m.cost/base.cost)
			if t.by.judged(r) {
				verdict = goalReached(m.cost/base.cost, t.by.goal)
			}
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s | %s | %s | %.0f requests/s | %s | %s | %s |\n",
			r.title, number(m.cost), ratio, verdict, spread(t.cells[i]), m.heap,
			float64(m.result.Calls)/m.result.Seconds, share(m.result.ProxyCPU, m.result.Seconds), latency(m.result),
			share(m.result.OtherCPU+m.result.Stolen, m.result.Seconds))
	}
	out.WriteString("\n")
}

// heap is what a Go process has allocated, or with since what it allocates for a request.
type heap struct{ objects, bytes float64 }

func (h heap) since(before heap, requests float64) heap {
	return heap{(h.objects - before.objects) / requests, (h.bytes - before.bytes) / requests}
}

// String is two columns of a table.
func (h heap) String() string {
	if h.objects == 0 {
		return "– | –"
	}
	return fmt.Sprintf("%.0f | %.1f KiB", h.objects, h.bytes/1024)
}

// heapOf asks a process that serves metrics; ok is false where it serves none.
func heapOf(ctx context.Context, p *peers.Peer) (h heap, ok bool) {
	if p.Admin == (netip.AddrPort{}) {
		return h, false
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/metrics", p.Admin), nil)
	if err != nil {
		return h, false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: metrics of %s: %v\n", p.Spec.Name, err)
		return h, false
	}
	defer func() { _ = resp.Body.Close() }()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case name == "go_memstats_mallocs_total":
			h.objects = n
		case name == "go_memstats_alloc_bytes_total":
			h.bytes = n
		}
	}
	return h, lines.Err() == nil && h.objects > 0
}
