package relay

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"github.com/capgate/capgate/gateway/relay/hpack"
)

// UpstreamConfig says how a backend is reached. Addr, Dial or Serve is required.
type UpstreamConfig struct {
	// Serve answers the streams in the process instead, as that of Stream.Serve: it stands for a backend of another
	// protocol. It returns a Status with Unsent for a stream that provably did not start there.
	Serve func(*ServerStream) Status

	Addr string                                      // host:port
	Dial func(ctx context.Context) (net.Conn, error) // instead of TCP to Addr
	// set: TLS, with a client certificate for mTLS; ALPN is set by the relay
	TLS *tls.Config
	// ServerName is what the peer's certificate must be for where TLS has none; default the host of Addr.
	ServerName string

	MaxConns    int           // connections per shard; default 16
	MaxQueue    int           // streams per shard that wait for a connection; default 4096
	DialTimeout time.Duration // connect, TLS handshake and the peer's SETTINGS; default 5 s
	// a connection silent for so long, with open streams, gets a PING; default 5 min 10 s, as grpc-go ends connections
	// that ask more often than every 5 min
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

// Upstream is one backend. Its connections are dialled when a stream needs one.
type Upstream struct {
	relay  *Relay
	cfg    UpstreamConfig
	tls    atomic.Pointer[tls.Config] // of the next connection; nil means cleartext
	closed atomic.Bool
	conns  atomic.Int64
}

// NewUpstream makes a backend known. It does not connect.
func (r *Relay) NewUpstream(cfg UpstreamConfig) *Upstream {
	u := &Upstream{relay: r, cfg: cfg.withDefaults()}
	if cfg.TLS != nil {
		u.SetTLS(cfg.TLS)
	}
	return u
}

// SetTLS changes what connections from now on show and ask. Those that are there stay.
// It must not be used on an upstream that was made without TLS.
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

// Local reports whether code in the process answers the streams.
func (u *Upstream) Local() bool { return u.cfg.Serve != nil }

// Conns returns the number of connections that are open and ready.
func (u *Upstream) Conns() int { return int(u.conns.Load()) }

// Close takes the backend out: its connections close as soon as they have no streams.
// Streams that wait for one, or that a Handler still forwards, are served.
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

// reach is connect, of which a panic is an error.
func (u *Upstream) reach(ctx context.Context) (nc net.Conn, err error) {
	err = errPanicked
	defer func() {
		if v := recover(); v != nil {
			u.relay.panicked("relay dial", v)
		}
	}()
	return u.connect(ctx)
}

// connect makes a connection ready to be written to.
func (u *Upstream) connect(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, u.cfg.DialTimeout)
	defer cancel()
	nc, err := u.cfg.Dial(ctx)
	secure := u.tls.Load()
	if err != nil || secure == nil {
		return nc, err
	}
	tc := tls.Client(nc, secure)
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
