package accept

import (
	"log/slog"
	"net"
	"net/netip"
	"time"
)

// Config sets how a Server accepts connections. The Server has no defaults: its user sets all that is not optional.
type Config struct {
	Log *slog.Logger // required

	// Origin returns the client's address. It is called first, on the connection's own goroutine, may read what comes
	// before anything else, and has SetupTimeout; an error ends the connection. nil means the socket's other end.
	Origin func(net.Conn) (net.Addr, error)
	// OnConnect returns Peer.Value. It is called once for each connection, when the connection is set up. nil means no
	// value.
	OnConnect func(*Peer) any
	// Account returns the account of what a connection takes as long as it is open. It is called before OnConnect.
	// nil means that is not bounded.
	Account func(*Peer) Account
	// Panicked is called for each recovered panic, by the deferred function that recovered it.
	Panicked func(where string, v any)

	MaxHeaderList int           // bytes of the header list of a request over HTTP/1.1
	SetupTimeout  time.Duration // for what comes before the first request: PROXY header, TLS handshake, preface
	IdleTimeout   time.Duration // an HTTP/1.1 connection without requests is closed after it
	Limits        Limits
	Age           Age
	Pages         Pages
}

// Limits bounds the connections of clients.
type Limits struct {
	// Concurrent connections. Further ones wait in the backlog.
	MaxConns int
	// Of these, connections from one network; further ones are closed.
	MaxNetworkConns int
	// Of these, connections for networks that authenticated in the last hour; 0 means none.
	ReservedConns int
	// TLS handshakes of one network that wait for a processor. A further one ends the oldest.
	MaxHandshakes int

	// MorePorts is the number of ports besides the public one, see Port. Each may have one connection more while it
	// accepts. With Evict it is the number of connections that may be closing besides MaxConns.
	MorePorts int
	// Network returns the network of a client's address, of which there may be MaxNetworkConns connections; false: any
	// number. nil means there may be any number of all.
	Network func(net.Addr) (netip.Prefix, bool)
	// Evict ends the oldest unauthenticated connection, of the network with the most of them, to make room for a new
	// connection at the limits MaxConns and MaxNetworkConns.
	Evict bool
}

// Age replaces old connections, so that their clients connect again, at another replica. Its fields with tags are a
// part of the configuration file.
type Age struct {
	// Age at which a client's connection is replaced, more or less a tenth: over HTTP/2 by GOAWAY, over HTTP/1.1 by
	// Connection: close. Calls and streams that run finish. 0s: none.
	Max time.Duration `yaml:"max_connection_age" default:"10m" restart:"yes"`
	// Time after max_connection_age for calls and streams over HTTP/2, which then end with UNAVAILABLE; 0s: no limit.
	Grace time.Duration `yaml:"max_connection_age_grace" default:"0s" restart:"yes"`

	// Leaving reports whether clients are to leave: each response over HTTP/1.1 then has Connection: close. It is
	// called for each response, from any goroutine. If it is nil, clients leave when the Server stops listening.
	Leaving func() bool
}

// Pages are the bodies of the responses of a Server itself. The zero value of a Page is an empty body.
type Pages struct {
	HeadersTooLarge Page // 431: the header list is longer than MaxHeaderList
	TooManyRequests Page // 429: there is no room for the headers of a request that is not gRPC
	TLSRequired     Page // 400: a request in cleartext at a port that speaks TLS
}

// Page is the body of a response.
type Page struct {
	Type string // of its content
	Body []byte
}
