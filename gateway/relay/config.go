package relay

import (
	"crypto/tls"
	"log/slog"
	"net"
	"runtime"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept"
)

// Config sets a relay's limits. The zero value is valid: each field has a default or is optional.
type Config struct {
	Shards int          // number of locks over the connections; default GOMAXPROCS
	Log    *slog.Logger // nil means records are discarded
	TLS    *tls.Config  // of the public port, with h2 or http/1.1 by ALPN (see SetTLS); nil means cleartext
	// Panicked is called for each recovered panic, by the deferred function, so that the stack is still available. A
	// shard may be locked. If nil, panics are logged.
	Panicked func(where string, v any)
	// Origin returns the client's address, see accept.Config.
	Origin func(net.Conn) (net.Addr, error)
	// OnConnect returns Peer.Value. It is called once for each client connection, at its setup.
	OnConnect func(*Peer) any
	// Web is called for each stream that is not gRPC before its http.Handler, with the shard locked. It may set and
	// drop headers, and set Stream.Value for ValueOf, which may be a WebContext, and must not do anything else.
	Web func(*Stream)
	// WebOnly sends all requests to the http.Handler, including those of gRPC. The Handler is then optional.
	WebOnly bool

	Limits     accept.Limits // of connections
	Age        accept.Age    // of connections
	Timeouts   Timeouts
	HTTP2      HTTP2
	Forwarding Forwarding
	Memory     Memory
	Responses  Responses
}

// Timeouts limits the silence of connections.
type Timeouts struct {
	Setup     time.Duration // for a preface, TLS handshake, header block and first message each; default 10 s
	Idle      time.Duration // of a connection without streams, before it is closed; default 5 min
	KeepAlive time.Duration // of a silent client connection, before a PING; default 1 min
	Ping      time.Duration // for the response to a PING; default 20 s
}

// HTTP2 limits what a peer may send over one connection.
type HTTP2 struct {
	MaxStreams      uint32 // open streams per client connection; default 1024
	MaxHeaderList   int    // bytes of a decoded header list, RFC 9113 §6.5.2; default 64 KiB
	MaxFirstMessage int    // bytes of a first message for ReadMessage; default 16 MiB
	StreamWindow    int    // bytes in flight per stream and direction; default and minimum 65535
	ConnWindow      int    // bytes in flight per connection and direction; default 1 MiB
}

// Forwarding configures how streams are sent to an Upstream.
type Forwarding struct {
	// OmitHeader reports the request headers that no upstream gets unless the Handler sets them. It must depend on the
	// name alone. The http.Handler gets them all. nil means none.
	OmitHeader func(name string) bool
	// MaxReplay is the maximum size of a request that is kept for another attempt, in bytes; default 64 KiB.
	MaxReplay int
	// DeadlineMargin is subtracted from the deadline for an upstream, to leave time for its response; default 1 ms.
	DeadlineMargin time.Duration
	// RefusedWithin is the time within which REFUSED_STREAM means that a stream was not processed; default 100 ms.
	// haproxy also responds with REFUSED_STREAM for a stream that its server had started and lost.
	RefusedWithin time.Duration
}

// Memory limits what a shard holds. A nil Account, or a nil function, has no limit.
type Memory struct {
	MaxBuffered     int64 // bytes held for slow readers and first messages, per shard; default 1 GiB / Shards
	MaxConnBuffered int   // of these, per client connection; default 64 MiB
	MaxKept         int   // bytes of unused buffers per shard; default 16 MiB
	// Client returns the account of a client connection, and of its streams without a Group. It is called once for
	// each connection, after OnConnect, with the shard locked. Calls of the process itself have Peer.Internal set; for
	// the shared memory of shards, the Peer is nil.
	Client func(*Peer) Account
	// Connection returns the account for the fixed cost of a client connection until a Group is set. It is called
	// before OnConnect.
	Connection func(*Peer) Account
	// Upstream returns the account of connections to an upstream address.
	Upstream func(addr string) Account
}

// Responses holds the relay's own responses. The zero value of a Page is an empty body.
type Responses struct {
	Pages accept.Pages
	// Closed and OutOfMemory are the statuses of in-process calls that cannot start because the relay has ended, or
	// holds MaxBuffered. The default is a status without details.
	Closed, OutOfMemory Status
}

// DefaultMaxConns is the default of Limits.MaxConns.
const DefaultMaxConns = 16 << 10

// accept returns the configuration of the accept.Server.
func (c *Config) accept(panicked func(string, any)) accept.Config {
	return accept.Config{
		Log: c.Log, Origin: c.Origin, OnConnect: c.OnConnect, Account: c.Memory.Connection, Panicked: panicked,
		MaxHeaderList: c.HTTP2.MaxHeaderList, SetupTimeout: c.Timeouts.Setup, IdleTimeout: c.Timeouts.Idle,
		Limits: c.Limits, Age: c.Age, Pages: c.Responses.Pages,
	}
}

func (c Config) withDefaults() Config {
	setDefault(&c.Shards, runtime.GOMAXPROCS(0))
	setDefault(&c.Limits.MaxConns, DefaultMaxConns)
	setDefault(&c.Limits.MaxNetworkConns, max(c.Limits.MaxConns/4, 1))
	setDefault(&c.Limits.MaxHandshakes, 512)
	setDefault(&c.Timeouts.Setup, 10*time.Second)
	setDefault(&c.Timeouts.Idle, 5*time.Minute)
	setDefault(&c.Timeouts.KeepAlive, time.Minute)
	setDefault(&c.Timeouts.Ping, 20*time.Second)
	setDefault(&c.HTTP2.MaxStreams, 1024)
	setDefault(&c.HTTP2.MaxHeaderList, 64<<10)
	setDefault(&c.HTTP2.MaxFirstMessage, 16<<20)
	setDefault(&c.HTTP2.ConnWindow, 1<<20)
	c.HTTP2.StreamWindow = max(c.HTTP2.StreamWindow, initialWindow)
	c.HTTP2.ConnWindow = max(c.HTTP2.ConnWindow, initialWindow)
	setDefault(&c.Forwarding.MaxReplay, 64<<10)
	setDefault(&c.Forwarding.DeadlineMargin, time.Millisecond)
	setDefault(&c.Forwarding.RefusedWithin, refusedWithin)
	setDefault(&c.Memory.MaxBuffered, (1<<30)/int64(c.Shards))
	setDefault(&c.Memory.MaxConnBuffered, 64<<20)
	setDefault(&c.Memory.MaxKept, 16<<20)
	if r := &c.Responses; r.Closed.Code == codeOK {
		r.Closed = Status{Code: codeUnavailable, Message: "the relay is closed"}
	}
	if r := &c.Responses; r.OutOfMemory.Code == codeOK {
		r.OutOfMemory = Status{Code: codeResourceExhausted, Message: "too many bytes are held for slow readers"}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

func setDefault[T int | int64 | uint32 | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}
