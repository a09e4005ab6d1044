package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/load"
)

// scenario is one measurement, with the calculation of its figure.
type scenario struct {
	name   string
	title  string
	figure string // name and unit of the figure
	cfg    load.Config
	kind   kind // of requests, which differ among peers; "" is gRPC
	cost   func(r load.Result) (float64, bool)
	rate   func(r load.Result) string // formats the amount of work done
	door   door
	fresh  bool // use a new process, and only one round
	http2  bool // only for proxies that support HTTP/2 streams
	// The generator, if it is not package load, and the scenario that it repeats.
	by      generator
	repeats string
}

const (
	chunkSize = 100 // bytes of data
	gib       = 1 << 30
)

func scenarios(idle idleOptions) []scenario {
	kib := h2.Work{Kind: h2.ReplyWork, Count: 1, Size: 1024}
	unary := load.Config{Mode: load.Closed, Method: load.Invoke, Work: kib, RequestSize: 1024, Conns: 8,
		Streams: inflight / 8}
	paced, single, headers, connections := unary, unary, unary, unary
	paced.Mode, paced.Rate = load.Open, 5000
	single.Conns, single.Streams = 1, 1
	for i := range 10 {
		headers.Header = append(headers.Header, [2]string{fmt.Sprintf("x-custom-header-%d", i),
			fmt.Sprintf("value-%d-of-a-header-that-a-client-sends", i)})
	}
	connections.Mode, connections.Conns, connections.Settle = load.Idle, idle.conns, 2*time.Second
	overTLS := connections
	overTLS.Conns = idle.conns * 3 / 10
	all := []scenario{
		{name: "unary-saturated", title: "unary 1 KiB, saturated", figure: "µs CPU a call", cfg: unary, cost: perCall,
			rate: calls},
		{name: "unary-paced", title: "unary 1 KiB, 5,000/s", figure: "µs CPU a call", cfg: paced, cost: perCall,
			rate: calls},
		{name: "unary-headers", title: "unary 1 KiB with 10 custom headers", figure: "µs CPU a call", cfg: headers,
			cost: perCall, rate: calls},
		{name: "chunks-paced", title: "100 B chunks, 10,000/s on 200 streams", figure: "µs CPU a chunk",
			cfg: load.Config{Mode: load.Hold, Method: load.Stream, RequestSize: 100, Conns: 8, Streams: 100, Held: 200,
				Work: h2.Work{Kind: h2.PacedWork, Count: 50, Size: chunkSize}},
			cost: perChunk, rate: chunks},
		{name: "bursts", title: "bursts of 1,000 chunks of 100 B", figure: "µs CPU a chunk",
			cfg: load.Config{Mode: load.Closed, Method: load.Stream, RequestSize: 100, Conns: 8, Streams: 4,
				Work: h2.Work{Kind: h2.ChunksWork, Count: 1000, Size: chunkSize}},
			cost: perChunk, rate: chunks},
		{name: "unary-tls", title: "unary 1 KiB over TLS, saturated", figure: "µs CPU a call", cfg: unary,
			cost: perCall, rate: calls, door: tlsDoor, http2: true},
		{name: "handshakes", title: "TLS handshakes", figure: "µs CPU a handshake",
			cfg:  load.Config{Mode: load.Handshakes, Conns: 8},
			cost: perCall, rate: handshakesDone, door: tlsDoor, http2: true},
		{name: "single", title: "one call at a time", figure: "µs, the p50", cfg: single, cost: p50, rate: calls},
		{name: "download", title: "download, 256 KiB chunks", figure: "s CPU a GiB",
			cfg: load.Config{Mode: load.Closed, Method: load.Download, Conns: 4, Streams: 2,
				Work: h2.Uploaded},
			cost: perGiB, rate: volume},
		{name: "upload", title: "upload, 256 KiB chunks", figure: "s CPU a GiB",
			cfg: load.Config{Mode: load.Closed, Method: load.Upload, Conns: 4, Streams: 2,
				RequestSize: h2.Uploaded.Size, Chunks: h2.Uploaded.Count},
			cost: perGiB, rate: volume},
		{name: "idle", title: "memory of an idle open stream", figure: "KiB a stream",
			cfg: load.Config{Mode: load.Hold, Method: load.Stream, RequestSize: 100, Streams: idle.perConn,
				Held: idle.streams, Settle: time.Second, Work: h2.Work{Kind: h2.IdleWork, Count: 1, Size: chunkSize}},
			cost: perStream, rate: opened, fresh: true, http2: true},
		{name: "idle-conn", title: "memory of an idle connection", figure: "KiB a connection", cfg: connections,
			cost: perConnection, rate: opened, fresh: true, http2: true},
		{name: "idle-conn-tls", title: "memory of an idle connection over TLS", figure: "KiB a connection",
			cfg: overTLS, cost: perConnection, rate: opened, fresh: true, http2: true, door: tlsDoor},
	}
	all = slices.Concat(all, requests(invoke, "JSON, invoke", jsonDoor),
		requests(perTool, "JSON, a tool's route", ownDoor),
		requests(connect, "JSON over Connect", ownDoor), requests(connectProto, "Connect", ownDoor)[1:],
		requests(grpcWeb, "gRPC-Web", ownDoor)[1:], requests(grpcWebText, "gRPC-Web as text", ownDoor)[1:],
		requests(mcp, "tools/call of MCP", mcpDoor), requests(mcpLegacy, "tools/call of MCP 2025-11-25", ownDoor))
	return append(all, again(all, h2load, "unary-saturated"), again(all, h2load, "unary-tls"),
		again(all, h2load, "json-invoke-h2"), again(all, wrk, "json-invoke-h1"))
}

// again returns a scenario with another generator.
func again(all []scenario, by generator, name string) scenario {
	s := all[slices.IndexFunc(all, func(s scenario) bool { return s.name == name })]
	s.name, s.title, s.by, s.repeats, s.http2 = string(by)+"-"+name, s.title+", by "+string(by), by, name, true
	return s
}

func perCall(r load.Result) (float64, bool) {
	return micros(r.ProxyCPU) / float64(r.Calls), r.Calls > 0
}

func perChunk(r load.Result) (float64, bool) {
	n := chunkCount(r)
	return micros(r.ProxyCPU) / n, n > 0
}

func chunkCount(r load.Result) float64 {
	return float64(r.Bytes) / float64(len(h2.InvokeChunk(chunkSize, false)))
}

func perGiB(r load.Result) (float64, bool) {
	return r.ProxyCPU.Seconds() / (float64(r.Bytes) / gib), r.Bytes > 0
}

func p50(r load.Result) (float64, bool) { return micros(r.P50), r.Calls > 0 }

func perStream(r load.Result) (float64, bool) {
	return float64(r.RSSOpened-r.RSSBefore) / 1024 / float64(r.Opened), r.Opened > 0
}

func perConnection(r load.Result) (float64, bool) {
	return float64(r.RSSOpened-r.RSSBefore) / 1024 / float64(r.OpenedConns), r.OpenedConns > 0
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
