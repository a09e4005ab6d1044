package main

import (
	"time"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/load"
)

// scenario is one thing that is measured, and how its figure comes about.
type scenario struct {
	name   string
	title  string
	figure string // what the figure is, with its unit
	cfg    load.Config
	cost   func(r, direct load.Result) (float64, bool)
	rate   func(r load.Result) string // how much was done
	// a window without a proxy, the backend on the proxy's core, comes first in each round
	direct bool
	fresh  bool // a new process for it, and one round
	http2  bool // only for proxies that know streams
	tls    bool // from clients over TLS: only for proxies that can serve it
	h2load bool // made by h2load, not by package load
}

const (
	chunkSize    = 100       // bytes of data
	artifactSize = 256 << 10 // bytes of data in a chunk
	artifacts    = 32        // chunks of a file
	gib          = 1 << 30
)

func scenarios(idle idleOptions) []scenario {
	kib := h2.Work{Kind: h2.ReplyWork, Count: 1, Size: 1024}
	return []scenario{
		{name: "unary-saturated", title: "unary 1 KiB, saturated", figure: "µs CPU a call",
			cfg: load.Config{Mode: load.Closed, Method: load.Invoke, Work: kib, RequestSize: 1024, Conns: 8,
				Streams: 32},
			cost: perCall, rate: calls},
		{name: "unary-paced", title: "unary 1 KiB, 5,000/s", figure: "µs CPU a call",
			cfg:  load.Config{Mode: load.Open, Method: load.Invoke, Work: kib, RequestSize: 1024, Conns: 8, Rate: 5000},
			cost: perCall, rate: calls},
		{name: "chunks-paced", title: "100 B chunks, 10,000/s on 200 streams", figure: "µs CPU a chunk",
			cfg: load.Config{Mode: load.Hold, Method: load.Stream, RequestSize: 100, Conns: 8, Streams: 100, Held: 200,
				Work: h2.Work{Kind: h2.PacedWork, Count: 50, Size: chunkSize}},
			cost: perChunk, rate: chunks},
		{name: "chunks-bursts", title: "100 B chunks in bursts", figure: "µs CPU a chunk",
			cfg: load.Config{Mode: load.Closed, Method: load.Stream, RequestSize: 100, Conns: 4, Streams: 4,
				Work: h2.Work{Kind: h2.ChunksWork, Count: 10000, Size: chunkSize}},
			cost: perChunk, rate: chunks},
		{name: "bursts", title: "bursts of 1,000 chunks of 100 B", figure: "µs CPU a chunk",
			cfg: load.Config{Mode: load.Closed, Method: load.Stream, RequestSize: 100, Conns: 8, Streams: 4,
				Work: h2.Work{Kind: h2.ChunksWork, Count: 1000, Size: chunkSize}},
			cost: perChunk, rate: chunks},
		{name: "download", title: "download, 256 KiB chunks", figure: "s CPU a GiB",
			cfg: load.Config{Mode: load.Closed, Method: load.Download, Conns: 4, Streams: 2,
				Work: h2.Work{Kind: h2.ArtifactWork, Count: artifacts, Size: artifactSize}},
			cost: perGiB, rate: volume},
		{name: "upload", title: "upload, 256 KiB chunks", figure: "s CPU a GiB",
			cfg: load.Config{Mode: load.Closed, Method: load.Upload, Conns: 4, Streams: 2,
				RequestSize: artifactSize, Chunks: artifacts},
			cost: perGiB, rate: volume},
		{name: "h2load", title: "unary 1 KiB, saturated, by h2load", figure: "µs CPU a call",
			cfg: load.Config{Mode: load.Closed, Method: load.Invoke, Work: kib, RequestSize: 1024, Conns: 8,
				Streams: 32},
			cost: perCall, rate: calls, http2: true, h2load: true},
		{name: "h2load-tls", title: "unary 1 KiB, saturated, over TLS, by h2load", figure: "µs CPU a call",
			cfg: load.Config{Mode: load.Closed, Method: load.Invoke, Work: kib, RequestSize: 1024, Conns: 8,
				Streams: 32},
			cost: perCall, rate: calls, http2: true, h2load: true, tls: true},
		{name: "single", title: "one call at a time", figure: "µs added to p50",
			cfg:  load.Config{Mode: load.Closed, Method: load.Invoke, Work: kib, RequestSize: 1024},
			cost: addedP50, rate: calls, direct: true},
		{name: "idle", title: "memory of an idle open stream", figure: "KiB a stream",
			cfg: load.Config{Mode: load.Hold, Method: load.Stream, RequestSize: 100, Streams: idle.perConn,
				Held: idle.streams, Settle: time.Second, Work: h2.Work{Kind: h2.IdleWork, Count: 1, Size: chunkSize}},
			cost: perStream, rate: opened, fresh: true, http2: true},
	}
}

func perCall(r, _ load.Result) (float64, bool) {
	return micros(r.ProxyCPU) / float64(r.Calls), r.Calls > 0
}

func perChunk(r, _ load.Result) (float64, bool) {
	n := chunkCount(r)
	return micros(r.ProxyCPU) / n, n > 0
}

func chunkCount(r load.Result) float64 {
	return float64(r.Bytes) / float64(len(h2.InvokeChunk(chunkSize, false)))
}

func perGiB(r, _ load.Result) (float64, bool) {
	return r.ProxyCPU.Seconds() / (float64(r.Bytes) / gib), r.Bytes > 0
}

func addedP50(r, direct load.Result) (float64, bool) {
	return micros(r.P50 - direct.P50), r.Calls > 0 && direct.Calls > 0
}

func perStream(r, _ load.Result) (float64, bool) {
	return float64(r.RSSOpened-r.RSSBefore) / 1024 / float64(r.Opened), r.Opened > 0
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
