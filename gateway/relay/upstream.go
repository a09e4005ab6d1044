package relay

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/gateway/relay/hpack"
)

// UpstreamConfig configures the connections to a backend. Addr, Dial or Serve is required.
type UpstreamConfig struct {
	// Serve serves the streams in the process instead, as with Stream.Serve: it stands for a backend with another
	// protocol. It returns a Status with Unsent for a stream that provably did not start there.
	Serve func(*ServerStream) Status

	Addr string                                      // host:port
	Dial func(ctx context.Context) (net.Conn, error) // used instead of TCP to Addr
	// TLS configures TLS, with a client certificate for mTLS; nil means cleartext. The relay sets ALPN.
	TLS *tls.Config
	// ServerName is the required name in the peer's certificate if TLS has none; default the host of Addr.
	ServerName string

	MaxConns    int           // connections per shard; default 16
	MaxQueue    int           // streams per shard that wait for a connection; default 4096
	DialTimeout time.Duration // connect, TLS handshake and the peer's SETTINGS; default 5 s
	// KeepAlive is the time of silence after which a connection with open streams gets a PING; default 5 min 10 s,
	// because grpc-go closes connections with more than one PING in 5 min.
	KeepAlive time.Duration
}

func (c UpstreamConfig) withDefaults() UpstreamConfig {
	setDefault(&c.MaxConns, 16)
	setDefault(&c.MaxQueue, 4096)
	setDefault(&c.DialTimeout, 5*time.Second)
	setDefault(&c.KeepAlive, 5*time.Minute+10*time.Second)
	if c.Dial == nil {
		dialer := &net.Dialer{KeepAlive: 15 * time.Second}
		c.Dial = func(ctx context.Context) (net.Conn, error) { return dialer.DialContext(ctx, "tcp", c.Addr) }
	}
	return c
}

// Upstream is a backend. Its connections are dialed when a stream needs one.
type Upstream struct {
	relay  *Relay
	cfg    UpstreamConfig
	tls    atomic.Pointer[tls.Config] // for new connections; nil means cleartext
	closed atomic.Bool
	conns  atomic.Int64
}

// NewUpstream returns an Upstream for a backend. It does not connect.
func (r *Relay) NewUpstream(cfg UpstreamConfig) *Upstream {
	u := &Upstream{relay: r, cfg: cfg.withDefaults()}
	if cfg.TLS != nil {
		u.SetTLS(cfg.TLS)
	}
	return u
}

// SetTLS changes the TLS configuration of new connections. Open ones are unaffected. It must not be called for an
// upstream created without TLS.
func (u *Upstream) SetTLS(t *tls.Config) {
	t = t.Clone()
	t.NextProtos = []string{"h2"}
	if t.ServerName == "" {
		t.ServerName = u.cfg.ServerName
	}
	if t.ServerName == "" {
		t.ServerName, _, _ = net.SplitHostPort(u.cfg.Addr)
	}
	u.tls.Store(t)
}

// Local reports whether code in the process serves the streams.
func (u *Upstream) Local() bool { return u.cfg.Serve != nil }

// Conns returns the number of connections that are open and ready.
func (u *Upstream) Conns() int { return int(u.conns.Load()) }

// Close closes the backend's connections as soon as they have no streams. Streams that wait for a connection, or that
// a Handler still forwards, are served.
func (u *Upstream) Close() {
	u.closed.Store(true)
	for _, sh := range u.relay.shards {
		sh.closePool(u)
	}
}

func (sh *shard) closePool(u *Upstream) {
	sh.enter()
	defer sh.leave()
	if p := sh.pools[u]; p != nil {
		p.close()
	}
}

// reach is connect with panics returned as errors.
func (u *Upstream) reach(ctx context.Context) (nc net.Conn, err error) {
	err = errPanicked
	defer func() {
		if v := recover(); v != nil {
			u.relay.panicked("relay dial", v)
		}
	}()
	return u.connect(ctx)
}

// connect establishes a connection.
func (u *Upstream) connect(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, u.cfg.DialTimeout)
	defer cancel()
	nc, err := u.cfg.Dial(ctx)
	secure := u.tls.Load()
	if err != nil || secure == nil {
		return nc, err
	}
	tc := tls.Client(&accept.Transport{Conn: nc}, secure)
	err = tc.HandshakeContext(ctx)
	if err == nil && tc.ConnectionState().NegotiatedProtocol != "h2" {
		err = errNoH2
	}
	if err != nil {
		nc.Close()
		return nil, err
	}
	return tc, nil
}

func (u *Upstream) scheme(consts *constFields) *hpack.Field {
	if u.cfg.TLS != nil {
		return &consts.schemeHTTPS
	}
	return &consts.schemeHTTP
}
