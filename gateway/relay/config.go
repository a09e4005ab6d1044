package relay

import (
	"crypto/tls"
	"log/slog"
	"net"
	"runtime"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept"
)

// Config sets a relay's limits. The zero value works: each field has a default, or stands for something that the relay
// does without.
type Config struct {
	Shards int          // locks over the connections; default GOMAXPROCS
	Log    *slog.Logger // nil means records are discarded
	TLS    *tls.Config  // of the public port, h2 or http/1.1 by ALPN (see SetTLS); nil means cleartext
	// Panicked is called for each panic that did not end the process, by the deferred function that recovered it: the
	// stack is still there. A shard may be locked. nil means a line in Log.
	Panicked func(where string, v any)
	// Origin returns the client's address, see accept.Config.
	Origin func(net.Conn) (net.Addr, error)
	// OnConnect returns Peer.Value. It is called once for each client connection, when the connection is set up.
	OnConnect func(*Peer) any
	// Web sees each stream that is not gRPC before it goes to the http.Handler, with the shard locked. It may set and
	// drop headers, and set Stream.Value for ValueOf, and do nothing else.
	Web func(*Stream)
	// WebOnly has the http.Handler answer all requests, those of gRPC too. No Handler is needed then.
	WebOnly bool

	Limits     accept.Limits // of connections
	Age        accept.Age    // of connections
	Timeouts   Timeouts
	HTTP2      HTTP2
	Forwarding Forwarding
	Memory     Memory
	Responses  Responses
}

// Timeouts bounds how long a connection may be silent.
type Timeouts struct {
	Setup     time.Duration // for a preface, TLS handshake, header block and first message each; default 10 s
	Idle      time.Duration // a connection without streams is closed after it; default 5 min
	KeepAlive time.Duration // a client connection silent for so long gets a PING; default 1 min
	Ping      time.Duration // a PING must be answered within it; default 20 s
}

// HTTP2 bounds what a peer may send over one connection.
type HTTP2 struct {
	MaxStreams      uint32 // open streams per client connection; default 1024
	MaxHeaderList   int    // bytes of a decoded header list, RFC 9113 §6.5.2; default 64 KiB
	MaxFirstMessage int    // bytes of a first message that ReadMessage waits for; default 16 MiB
	StreamWindow    int    // bytes in flight per stream and direction; default and least 65535
	ConnWindow      int    // bytes in flight per connection and direction; default 1 MiB
}

// Forwarding sets how streams are sent to an Upstream.
type Forwarding struct {
	// OmitHeader reports the request headers that no upstream gets unless the Handler sets them. It must depend on the
	// name alone. The http.Handler gets them all. nil means none.
	OmitHeader func(name string) bool
	// MaxReplay is the bytes of a request kept so that a stream that did not start can go elsewhere; default 64 KiB.
	MaxReplay int
	// DeadlineMargin is taken off the deadline that an upstream gets, so that its response can still travel; default 1
	// ms.
	DeadlineMargin time.Duration
	// RefusedWithin is the time in which a server that does not process a stream refuses it; default 100 ms. haproxy
	// also answers REFUSED_STREAM for a stream that its server had begun and lost.
	RefusedWithin time.Duration
}

// Memory bounds what a shard holds. An Account that is nil, or whose function is nil, bounds nothing.
type Memory struct {
	MaxBuffered     int64 // bytes held for slow readers and first messages, per shard; default 1 GiB / Shards
	MaxConnBuffered int   // of these, for one client connection; default 64 MiB
	MaxKept         int   // bytes of unused buffers, kept per shard to be used again; default 16 MiB
	// Client returns the account of a client connection for itself, and for its streams that are of no Group. It is
	// called once for each, after OnConnect, with the shard locked. For calls that the process makes for itself
	// Peer.Internal is set, and for what the shards hold for all the Peer is nil.
	Client func(*Peer) Account
	// Connection returns the account of what a client connection takes as long as it is open, until a Group is set. It
	// is called before OnConnect.
	Connection func(*Peer) Account
	// Upstream returns the account of connections to an upstream at that address, for themselves.
	Upstream func(addr string) Account
}

// Responses are those of the relay itself. The zero value of a Page is an empty body.
type Responses struct {
	Pages accept.Pages
	// Closed and OutOfMemory are the statuses of calls of the process that cannot begin: the relay has ended, or holds
	// MaxBuffered. The default is a status without details.
	Closed, OutOfMemory Status
}

// DefaultMaxConns is the default of Limits.MaxConns.
const DefaultMaxConns = 16 << 10

// accept returns the part of the accept.Server.
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
