package redisstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/capgate/capgate/internal/lib/buildinfo"
	"github.com/capgate/capgate/internal/lib/redisurl"
)

// connections bounds the connections to one node. Commands are short; further ones wait.
const connections = 16

// universal converts the Config to the client library's options.
func universal(cfg *Config, t *redisurl.Target) *redis.UniversalOptions {
	o := &redis.UniversalOptions{
		Addrs: t.Addrs, MasterName: t.Master, DB: t.DB, IsClusterMode: t.Kind == redisurl.Cluster,
		SentinelUsername: t.SentinelUsername, SentinelPassword: t.SentinelPassword,

		// A command has the deadline of its context, and is not retried: its caller decides. The breaker
		// reconnects. A Cluster's client retries besides, see answersOnce.
		ContextTimeoutEnabled: true,
		DialTimeout:           cfg.Dial, ReadTimeout: cfg.Timeout, WriteTimeout: cfg.Timeout, PoolTimeout: cfg.Timeout,
		MaxRetries: -1, DialerRetries: 1,

		PoolSize: connections, PipelinePoolSize: -1, ConnMaxIdleTime: 5 * time.Minute,
		ReadBufferSize: 8 << 10, WriteBufferSize: 8 << 10,

		OnConnect: greet,

		// RESP2 and a plain greeting suffice, and every version supports them.
		Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	return o
}

// greet gives a new connection a name in Redis's CLIENT LIST. The name is optional, so that every user and every
// version of Redis is accepted; HELLO needs no permission. A connection without the required password is closed, so
// that Reload is for all connections.
func greet(ctx context.Context, c *redis.Conn) error {
	pipe := c.Pipeline()
	pipe.Do(ctx, "HELLO", 2, "SETNAME", buildinfo.UserAgent("capgate"))
	ping := pipe.Ping(ctx)
	_, _ = pipe.Exec(ctx) // each command has its error
	return ping.Err()
}

// access holds the settings of new connections other than the URL.
type access struct {
	tls      *tls.Config // nil: cleartext
	username string
	password string
}

func newAccess(cfg *Config, t *redisurl.Target) *access {
	a := &access{username: t.Username, password: cmp.Or(cfg.Password, t.Password)}
	if t.TLS {
		a.tls = &tls.Config{MinVersion: tls.VersionTLS12}
		if cfg.TLS != nil {
			a.tls = cfg.TLS.Clone()
		}
	}
	return a
}

// Reload makes new connections use the password and the TLS configuration of cfg. Open connections stay.
func (s *Store) Reload(cfg Config) { s.access.Store(newAccess(&cfg, &s.target)) }

// dial connects with the newest TLS configuration.
func (s *Store) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := s.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	if s.target.Kind != redisurl.Cluster {
		return prompt(conn), nil
	}
	if raw, ok := conn.(syscall.Conn); ok { // see prompt
		return struct {
			answersOnce
			syscall.Conn
		}{answersOnce{prompt(conn)}, raw}, nil
	}
	return answersOnce{prompt(conn)}, nil
}

func (s *Store) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	if s.cfg.Dialer != nil {
		return s.cfg.Dialer(ctx, network, addr)
	}
	dialer := &net.Dialer{Timeout: s.cfg.Dial}
	if secure := s.access.Load().tls; secure != nil {
		return (&tls.Dialer{NetDialer: dialer, Config: secure}).DialContext(ctx, network, addr)
	}
	return dialer.DialContext(ctx, network, addr)
}

func (s *Store) credentials(context.Context) (username, password string, err error) {
	a := s.access.Load()
	return a.username, a.password, nil
}

// answersOnce is a connection to a node of a Cluster. The client that follows a slot which has moved also sends a
// command again if the connection ends before the answer. The node may have executed it. After another error the
// client sends nothing again.
type answersOnce struct{ net.Conn }

var errEnded = errors.New("redis has closed the connection")

// Read implements net.Conn.
func (c answersOnce) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errEnded
	}
	return n, err
}
