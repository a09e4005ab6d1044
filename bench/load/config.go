package load

import (
	"net/netip"
	"time"

	"github.com/capgate/capgate/bench/h2"
)

// Mode determines when calls start.
type Mode string

// The modes.
const (
	Closed Mode = "closed" // each call starts when the previous one has ended
	Open   Mode = "open"   // Rate calls a second, at fixed times
	Hold   Mode = "hold"   // streams are opened once and kept open
	Idle   Mode = "idle"   // connections are kept open after one call each

	// Handshakes opens connections over TLS one after the other, each until the server's SETTINGS.
	Handshakes Mode = "handshakes"
)

// Method is the called RPC.
type Method string

// The methods.
const (
	Invoke   Method = "invoke"
	Legacy   Method = "legacy" // Invoke of the legacy dialect
	Stream   Method = "stream"
	Download Method = "download"
	Upload   Method = "upload"
)

// Turn is the scheduling priority of a generator on a core that it shares.
type Turn uint8

// The turns.
const (
	Fair  Turn = iota // like any process
	Last              // only when no other process is runnable
	First             // before all others, so that it does not measure its own wait; requires root
)

// Config configures one window. It is sent to the generator's process as JSON.
type Config struct {
	Target netip.AddrPort
	TLS    bool  // the certificate is not verified
	JSON   *JSON // JSON requests instead of gRPC calls, from the same hand-made generator; Closed or Open only

	Mode         Mode
	Method       Method
	Work         h2.Work       // the backend's response; ignored by Upload
	RequestSize  int           // bytes of arguments, or of an upload's chunk
	Chunks       int           // chunks of an upload
	Conns        int           // connections, default 1
	Streams      int           // calls in flight on each (Closed), or most streams on each (Hold); default 1
	Rate         int           // calls a second (Open)
	Held         int           // streams (Hold)
	Key          string        // API key; "" sends none
	Header       [][2]string   // further fields of each call; names in lower case
	Flood        bool          // calls that are rejected, or cannot start in time, are not errors
	Turn         Turn          // default Fair
	Capability   string        // default weather
	Capabilities int           // more than 1: calls go in turn to <Capability>-0, -1, …
	Warm         time.Duration // time before the measurement
	Window       time.Duration // duration of the measurement
	Settle       time.Duration // Hold: time between the last stream's first message and the reading of the memory

	StreamWindow int // flow control, bytes; default 256 KiB
	ConnWindow   int // default 4 MiB

	Proxy   int // process to watch; 0 for none
	Backend int // likewise
}

// JSON is a repeated request. Its response must have the status 200.
type JSON struct {
	Path   string
	Body   []byte
	Type   string // of the body, default application/json
	Accept string // default */*
	HTTP1  bool   // over HTTP/1.1 with keep-alive, one request at a time on each connection; else over HTTP/2
}

// Result is the result of one window.
type Result struct {
	Seconds float64
	Calls   int64 // calls that ended in the window
	Bytes   int64 // bytes of DATA received in the window, or for Upload sent
	Total   int64 // successful calls of the whole run, including warm-up and drain
	Errors  int64 // failed calls of the whole run
	Refused int64 // Flood: rejected calls of the whole run
	Problem string

	P50, P99, P999 time.Duration // of the calls that ended in the window

	ProxyCPU, BackendCPU, LoadCPU time.Duration // in the window
	OtherCPU, Stolen              time.Duration // the rest of the machine; taken by the hypervisor

	Opened               int   // Hold: streams that have received their first message
	OpenedConns          int   // Hold: connections of these streams; Idle: connections whose call has ended
	RSSBefore, RSSOpened int64 // bytes, of the proxy: before the first connection, and with all of them open

	Negotiated string // Handshakes: the parameters that the first connection negotiated
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
