package redisstore_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/capgate/capgate/internal/redisstore"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/redistest"
)

// cutConn ends when Redis responds to a command that names a key: it has executed the command.
type cutConn struct {
	net.Conn

	key  []byte
	cuts *atomic.Int64
	asks atomic.Bool
}

func (c *cutConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, c.key) {
		c.asks.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *cutConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil || !c.asks.Load() {
		return n, err
	}
	c.cuts.Add(1)
	_ = c.Close()
	return 0, io.EOF
}

// TestNoCommandIsSentTwice: a command that may have been executed is not sent again, whatever kind of Redis it is.
func TestNoCommandIsSentTwice(t *testing.T) {
	t.Parallel()
	const increment = `return redis.call('INCR', KEYS[1])`
	for kind, url := range servers.urls {
		for name, send := range map[string]func(ctx context.Context, p *redisstore.Probe, key string) error{
			"command": func(ctx context.Context, p *redisstore.Probe, key string) error {
				return p.Do(ctx, func(ctx context.Context, r redis.Cmdable) error { return r.Incr(ctx, key).Err() })
			},
			"script": func(ctx context.Context, p *redisstore.Probe, key string) error {
				return p.Run(ctx, increment, []string{key}).Err()
			},
			"pipeline": func(ctx context.Context, p *redisstore.Probe, key string) error {
				return p.Do(ctx, func(ctx context.Context, r redis.Cmdable) error {
					_, err := r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
						pipe.Incr(ctx, key)
						pipe.Get(ctx, key)
						return nil
					})
					return err
				})
			},
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				t.Parallel()
				prefix := fmt.Sprintf("cg:test-%d:", servers.tests.Add(1))
				whole := open(t, redisstore.Config{URL: url(), Prefix: prefix}).Probe()
				key := whole.Key("n")
				check.Must(t, send(t.Context(), whole, key)) // Redis knows the script from now on

				var cuts atomic.Int64
				cut := open(t, redisstore.Config{URL: url(), Prefix: prefix,
					Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
						conn, err := new(net.Dialer).DialContext(ctx, network, addr)
						return &cutConn{Conn: conn, key: []byte(key), cuts: &cuts}, err
					}}).Probe()
				if err := send(t.Context(), cut, key); err == nil {
					t.Error("a command without an answer succeeded")
				}
				if got, err := whole.Get(t.Context(), key); err != nil || got != "2" || cuts.Load() != 1 {
					t.Errorf("it was executed %s times, want 2 with the one before; %d connections ended; %v", got,
						cuts.Load(), err)
				}
			})
		}
	}
}

// TestIdleConnectionsOfAClusterAreChecked: a command is not sent on an idle connection that has ended, and so succeeds.
func TestIdleConnectionsOfAClusterAreChecked(t *testing.T) {
	t.Parallel()
	const rounds = 20
	cluster := redistest.StartCluster(t)
	p := open(t, redisstore.Config{URL: cluster.URL()}).Probe()
	set := func() error { return p.Set(t.Context(), p.Key("n"), "1") }
	failed := 0
	for range rounds {
		check.Succeeds(t, "a command", set)
		cluster.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		if set() != nil { // the end may not have arrived yet
			failed++
		}
	}
	if failed > rounds/2 {
		t.Errorf("%d of %d commands failed after their connections had ended", failed, rounds)
	}
}
