package relay

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept"
)

// Config sets a relay's limits. The zero value works.
type Config struct {
	TLS *tls.Config  // set: the listener speaks TLS, h2 or http/1.1 by ALPN (see SetTLS); nil: cleartext
	Log *slog.Logger // nil: discard

	// Origin says whose a new connection is. It is asked first of all, on the connection's own
	// goroutine, may read what comes before anything else, and has SetupTimeout; an error ends
	// the connection. nil: it is the socket's other end.
	Origin func(net.Conn) (net.Addr, error)
	// Network is whose a connection's address is taken to be, of whom there may be MaxNetworkConns; false: any number.
	// nil: there may be any number of all.
	Network func(net.Addr) (netip.Prefix, bool)
	// OnConnect returns Peer.Value. It is called once for each client connection, when the connection is set up.
	OnConnect func(*Peer) any
	// Account is what a client connection may hold for itself, and for its streams that are of no Group: asked once for
	// each, after OnConnect, with the shard locked. For calls that the process makes for itself Peer.Internal is set, and for
	// what the shards hold for all the Peer is nil. nil: nothing is bounded.
	Account func(*Peer) Account
	// ConnAccount returns the account of what a client connection takes as long as it is open, until a Group is set. It is
	// called before OnConnect. nil: that is not bounded.
	ConnAccount func(*Peer) Account
	// UpstreamAccount is what connections to an upstream at that address may hold for themselves. nil: that is not
	// bounded.
	UpstreamAccount func(addr string) Account
	// Hidden tells the request headers that no upstream gets unless the Handler sets them. It
	// must depend on the name alone. The http.Handler gets them all. nil: none.
	Hidden func(name string) bool
	// Web sees each stream that is not gRPC before it goes to the http.Handler, with the shard
	// locked. It may set and drop headers, and set Stream.Value for ValueOf, and do nothing else.
	Web func(*Stream)
	// WebOnly has the http.Handler answer all requests, those of gRPC too. No Handler is needed then.
	WebOnly bool
	// Evict ends the oldest connection without a credential, of the network with the most of them, to make room for a
	// new connection at the limits MaxConns and MaxNetworkConns. See Relay.Authenticated.
	Evict bool
	// Panicked is told of each panic that did not end the process, by the deferred function that recovered it:
	// the stack is still there. A shard may be locked. nil: a line in Log.
	Panicked func(where string, v any)
	// TooLong is what requests get with the status 431. The zero value is nothing.
	TooLong Page
	// TooMuch is what requests that are not gRPC get with the status 429 when there is no room for them. The zero value is
	// nothing.
	TooMuch Page
	// Closed and Full are what calls of the process get that cannot begin: the relay has ended, or holds MaxBuffered. The
	// zero value is a status without details.
	Closed, Full Status
	// Cleartext is the answer to cleartext HTTP/1.1 requests, with the status 400, where the listener speaks TLS. The zero
	// value is nothing.
	Cleartext Page

	Shards   int // locks over the connections; default GOMAXPROCS
	MaxConns int // client connections at once; default 16384; more wait in the listener's backlog
	// ports besides the public one, see Port; each may have one connection more while it accepts. With Evict it is the
	// number of connections that may be closing besides MaxConns.
	MorePorts       int
	MaxNetworkConns int // of these, from one network; default a quarter; more are closed at once
	// TLS handshakes of one network that wait for a processor; default 512; of more the oldest is ended
	MaxHandshakes int
	// of MaxConns, for networks of which a client has authenticated (see Relay.Authenticated); default 0
	ReservedConns   int
	MaxStreams      uint32 // open streams per client connection; default 1024
	MaxHeaderList   int    // bytes of a decoded header list, RFC 9113 §6.5.2; default 64 KiB
	MaxFirstMessage int    // bytes of a first message that ReadMessage waits for; default 16 MiB
	// bytes of a request kept so that a stream that did not start can go elsewhere; default 64 KiB
	MaxReplay       int
	MaxBuffered     int64 // bytes held for slow readers and first messages, per shard; default 1 GiB / Shards
	MaxKept         int   // bytes of buffers that nobody uses, kept per shard to be used again; default 16 MiB
	MaxConnBuffered int   // of these, for one client connection; default 64 MiB
	StreamWindow    int   // bytes in flight per stream and direction; default and least 65535
	ConnWindow      int   // bytes in flight per connection and direction; default 1 MiB
	// preface, TLS handshake, header block and first message must come within it; default 10 s
	SetupTimeout time.Duration
	IdleTimeout  time.Duration // a connection without streams is closed after it; default 5 min
	KeepAlive    time.Duration // a client connection silent for so long gets a PING; default 1 min
	PingTimeout  time.Duration // a PING must be answered within it; default 20 s
	// taken off the deadline told upstream, so that its answer can still travel; default 1 ms
	DeadlineMargin time.Duration

	// MaxAge is the age at which a client connection is to be replaced: a client over HTTP/2 gets GOAWAY, a response
	// over HTTP/1.1 has Connection: close. Ages differ by up to a tenth. 0 means no limit.
	MaxAge time.Duration
	// Grace is the time after MaxAge for the calls of a connection over HTTP/2, which get the Handler's answer to
	// Draining when it is over. 0 means no limit.
	Grace time.Duration
	// Leaving reports whether clients are to leave: each response over HTTP/1.1 then has Connection: close. It is asked
	// for each response, from any goroutine. If it is nil, clients leave when the relay stops.
	Leaving func() bool
}

// DefaultMaxConns is the default of Config.MaxConns.
const DefaultMaxConns = 16 << 10

// accept returns what the accept.Server needs.
func (c *Config) accept(panicked func(string, any)) accept.Config {
	return accept.Config{
		Log: c.Log, Origin: c.Origin, OnConnect: c.OnConnect, Account: c.ConnAccount, Panicked: panicked,
		MaxHeaderList: c.MaxHeaderList, SetupTimeout: c.SetupTimeout, IdleTimeout: c.IdleTimeout,
		Limits: accept.Limits{MaxConns: c.MaxConns, MorePorts: c.MorePorts, Network: c.Network,
			MaxNetworkConns: c.MaxNetworkConns, MaxHandshakes: c.MaxHandshakes, ReservedConns: c.ReservedConns, Evict: c.Evict},
		Age:   accept.Age{Max: c.MaxAge, Grace: c.Grace, Leaving: c.Leaving},
		Pages: accept.Pages{HeadersTooLarge: c.TooLong, TooManyRequests: c.TooMuch, TLSRequired: c.Cleartext},
	}
}

func (c Config) withDefaults() Config {
	setDefault(&c.Shards, runtime.GOMAXPROCS(0))
	setDefault(&c.MaxConns, DefaultMaxConns)
	setDefault(&c.MaxNetworkConns, max(c.MaxConns/4, 1))
	setDefault(&c.MaxHandshakes, 512)
	setDefault(&c.MaxStreams, 1024)
	setDefault(&c.MaxHeaderList, 64<<10)
	setDefault(&c.MaxFirstMessage, 16<<20)
	setDefault(&c.MaxReplay, 64<<10)
	setDefault(&c.MaxBuffered, (1<<30)/int64(c.Shards))
	setDefault(&c.MaxKept, 16<<20)
	setDefault(&c.MaxConnBuffered, 64<<20)
	setDefault(&c.ConnWindow, 1<<20)
	setDefault(&c.SetupTimeout, 10*time.Second)
	setDefault(&c.IdleTimeout, 5*time.Minute)
	setDefault(&c.KeepAlive, time.Minute)
	setDefault(&c.PingTimeout, 20*time.Second)
	setDefault(&c.DeadlineMargin, time.Millisecond)
	c.StreamWindow = max(c.StreamWindow, initialWindow)
	c.ConnWindow = max(c.ConnWindow, initialWindow)
	if c.Closed.Code == codeOK {
		c.Closed = Status{Code: codeUnavailable, Message: "the relay is closed"}
	}
	if c.Full.Code == codeOK {
		c.Full = Status{Code: codeResourceExhausted, Message: "too many bytes are held for slow readers"}
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
