package accept

import (
	"log/slog"
	"net"
	"net/netip"
	"time"
)

// Config configures a Server. The Server has no defaults: all fields that are not optional must be set.
type Config struct {
	Log *slog.Logger // required

	// Origin returns the client's address. It is called first, on the connection's own goroutine, may read what
	// precedes any other data, and has SetupTimeout. An error ends the connection. If nil, the address is that of the
	// socket.
	Origin func(net.Conn) (net.Addr, error)
	// OnConnect returns Peer.Value. It is called once for each connection, at its setup; optional.
	OnConnect func(*Peer) any
	// Account returns the account for the fixed cost of an open connection. It is called before OnConnect. If nil,
	// there is no limit.
	Account func(*Peer) Account
	// Panicked is called for each recovered panic, by the deferred function that recovered it.
	Panicked func(where string, v any)

	MaxHeaderList int           // bytes of the header list of an HTTP/1.1 request
	SetupTimeout  time.Duration // from the start to the first request: PROXY header, TLS handshake, preface
	IdleTimeout   time.Duration // of an HTTP/1.1 connection without requests, before it is closed
	Limits        Limits
	Age           Age
	Pages         Pages
}

// Limits limits the connections of clients.
type Limits struct {
	// Maximum number of concurrent connections. Further ones wait in the backlog.
	MaxConns int
	// Maximum number of them from one network; further ones are closed.
	MaxNetworkConns int
	// Number of them reserved for networks that authenticated in the last hour; 0 means none.
	ReservedConns int
	// Maximum number of TLS handshakes of one network that wait for a processor. A further one ends the oldest.
	MaxHandshakes int

	// MorePorts is the number of ports besides the public one, see Port. Each may have one more connection while it
	// accepts. With Evict it is the number of closing connections in addition to MaxConns.
	MorePorts int
	// Network returns the network of a client's address, to which MaxNetworkConns applies; false means no limit. If
	// Network is nil, there is no limit for any network.
	Network func(net.Addr) (netip.Prefix, bool)
	// Evict ends the oldest unauthenticated connection, of the network with the most of them, to make room for a new
	// connection at the limits MaxConns and MaxNetworkConns.
	Evict bool
}

// ClientLimits bounds the resources of one replica that clients use by their network. It counts those that need no
// credential.
type ClientLimits struct {
	// Concurrent connections. Further ones wait in the backlog. A network may have a quarter of them, and an eighth is
	// reserved for networks that authenticated in the last hour. A quarter may be calls that need no credential, such
	// as Health/Watch and reflection.
	Connections int `yaml:"connections" min:"16" max:"1000000" default:"16384"`
	// Addresses without these limits, besides trusted_proxies; []: none.
	Exempt []netip.Prefix `yaml:"exempt" default:"[127.0.0.0/8, '::1/128']"`
}

// Limits returns the limits of connections.
func (c *ClientLimits) Limits() Limits {
	return Limits{MaxConns: c.Connections, MaxNetworkConns: c.Connections / 4, ReservedConns: c.Connections / 8,
		MaxHandshakes: max(c.Connections/32, 8)}
}

// Age replaces old connections, so that their clients connect again, at another replica. Its fields with tags are a
// part of the configuration file.
type Age struct {
	// Age at which a client's connection is replaced, more or less a tenth: over HTTP/2 by GOAWAY, over HTTP/1.1 by
	// Connection: close. Calls and streams that run finish. 0s: none.
	Max time.Duration `yaml:"max_connection_age" default:"10m" restart:"yes"`
	// Time after max_connection_age for calls and streams over HTTP/2, which then end with UNAVAILABLE; 0s: no limit.
	Grace time.Duration `yaml:"max_connection_age_grace" default:"0s" restart:"yes"`

	// Leaving reports whether clients must move elsewhere: each HTTP/1.1 response then has Connection: close. It is
	// called for each response, from any goroutine. If nil, clients must move when the Server stops listening.
	Leaving func() bool
}

// Pages holds the bodies of the Server's own responses. The zero value of a Page is an empty body.
type Pages struct {
	HeadersTooLarge Page // 431: the header list exceeds MaxHeaderList
	TooManyRequests Page // 429: no memory for the headers of a request that is not gRPC
	TLSRequired     Page // 400: a cleartext request at a TLS port
}

// Page is the body of a response.
type Page struct {
	Type string // of its content
	Body []byte
}
