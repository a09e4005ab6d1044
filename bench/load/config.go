package load

import (
	"net/netip"
	"time"

	"github.com/capgate/capgate/bench/h2"
)

// Mode is how calls follow each other.
type Mode string

// The modes.
const (
	Closed Mode = "closed" // a call that ends is followed by the next
	Open   Mode = "open"   // Rate calls a second, each at its own time
	Hold   Mode = "hold"   // streams are opened once and kept
	Idle   Mode = "idle"   // connections have a call each, and are kept

	// Handshakes opens connections over TLS one after the other, each until the server's SETTINGS.
	Handshakes Mode = "handshakes"
)

// Method is which RPC is called.
type Method string

// The methods.
const (
	Invoke   Method = "invoke"
	Legacy   Method = "legacy" // Invoke of the legacy dialect
	Stream   Method = "stream"
	Download Method = "download"
	Upload   Method = "upload"
)

// Turn is when a generator runs on a core that it shares.
type Turn uint8

// The turns.
const (
	Fair  Turn = iota // as any process
	Last              // when nobody else wants to
	First             // at once, so that it does not measure its own wait. Needs root
)

// Config of one window. It travels to the generator's process as JSON.
type Config struct {
	Target netip.AddrPort
	TLS    bool  // without verifying the certificate
	JSON   *JSON // JSON requests instead of gRPC calls, from the same hand-made generator; Closed or Open only

	Mode         Mode
	Method       Method
	Work         h2.Work       // what the backend answers; ignored by Upload
	RequestSize  int           // bytes of arguments, or of an upload's chunk
	Chunks       int           // of an upload
	Conns        int           // connections, default 1
	Streams      int           // calls in flight on each (Closed), or most streams on each (Hold); default 1
	Rate         int           // calls a second (Open)
	Held         int           // streams (Hold)
	Key          string        // API key; "" shows none
	Header       [][2]string   // further fields of each call, names in lower case
	Flood        bool          // calls that are refused, or cannot start in time, are no errors
	Turn         Turn          // among those that need the core
	Capability   string        // default weather
	Capabilities int           // more than 1: calls go in turn to <Capability>-0, -1, …
	Warm         time.Duration // before measuring
	Window       time.Duration // measured
	Settle       time.Duration // Hold: between the last stream's first message and reading memory

	StreamWindow int // flow control, bytes; default 256 KiB
	ConnWindow   int // default 4 MiB

	Proxy   int // process to watch, 0 for none
	Backend int // the same
}

// JSON is a request that is repeated. Its response must have the status 200.
type JSON struct {
	Path   string
	Body   []byte
	Type   string // of the body, default application/json
	Accept string // default */*
	HTTP1  bool   // over HTTP/1.1 with keep-alive, one request at a time on each connection; else over HTTP/2
}

// Result of one window.
type Result struct {
	Seconds float64
	Calls   int64 // ended in the window
	Bytes   int64 // of DATA received in it, or for Upload sent
	Total   int64 // calls that ended well in the whole run, warming up and draining included
	Errors  int64 // calls that ended badly, in the whole run
	Refused int64 // Flood: calls that were refused, in the whole run
	Problem string

	P50, P99, P999 time.Duration // of the calls that ended in the window

	ProxyCPU, BackendCPU, LoadCPU time.Duration // in the window
	OtherCPU, Stolen              time.Duration // the rest of the machine

	Opened               int   // Hold: streams that had their first message
	OpenedConns          int   // on so many connections; Idle: connections that had their call
	RSSBefore, RSSOpened int64 // bytes, of the proxy: before the first connection, and with all of them open

	Negotiated string // Handshakes: what the first connection agreed on
}

func (c *Config) setDefaults() {
	c.Conns = max(c.Conns, 1)
	c.Streams = max(c.Streams, 1)
	if c.Capability == "" {
		c.Capability = "weather"
	}
	if c.StreamWindow == 0 {
		c.StreamWindow = 256 << 10
	}
	if c.ConnWindow == 0 {
		c.ConnWindow = 4 << 20
	}
}
