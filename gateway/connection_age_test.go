package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// balancer is a layer 4 load balancer: it forwards each new connection to the next of its addresses.
type balancer struct {
	addr string
	mu   sync.Mutex
	to   []string
	next int
}

func newBalancer(t *testing.T, to ...string) *balancer {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	b := &balancer{addr: ln.Addr().String(), to: to}
	var all sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() { b.pass(ctx, nc) })
		}
	})
	check.Cleanup(t, func() { _ = ln.Close(); cancel(); all.Wait() })
	return b
}

func (b *balancer) add(addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to = append(b.to, addr)
}

// move forwards all new connections to addr.
func (b *balancer) move(addr string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to = []string{addr}
}

func (b *balancer) pass(ctx context.Context, nc net.Conn) {
	b.mu.Lock()
	to := b.to[b.next%len(b.to)]
	b.next++
	b.mu.Unlock()
	up, err := net.Dial("tcp", to)
	if err != nil {
		_ = nc.Close()
		return
	}
	defer context.AfterFunc(ctx, func() { _ = nc.Close(); _ = up.Close() })()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{nc, up}, {up, nc}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = way[0].(*net.TCPConn).CloseWrite()
		})
	}
	both.Wait()
	_, _ = nc.Close(), up.Close()
}

// startAgingReplica starts a replica in front of its own backend. Connections of its clients have a short maximum age.
func startAgingReplica(t *testing.T) (*gatewaytest.Gateway, *gatewaytest.Capability) {
	t.Helper()
	f := startFront(t, call.Doc, call.Doc, func(o *gatewaytest.Options) { o.Relay.Age.Max = 200 * time.Millisecond })
	return f.gateway, f.capability
}

// steady runs callers over gRPC and HTTP/1.1 that make one call after another until ctx ends, and returns their
// arguments. A lost call fails the test.
func steady(ctx context.Context, t *testing.T, addr string, running *sync.WaitGroup) (args []string) {
	reach := &gatewaytest.Gateway{Addr: addr}
	for i := range 6 {
		arg := fmt.Sprintf(`{"caller":%d}`, i)
		web := reach.HTTP1(t)
		try := func() error {
			resp, err := web.Post(reach.URL("/v1/capabilities/caps/invoke"), "application/json",
				strings.NewReader(`{"tool_name":"echo","args":`+arg+`}`))
			if err != nil {
				return err
			}
			if _, err = io.Copy(io.Discard, resp.Body); resp.StatusCode != http.StatusOK {
				err = fmt.Errorf("status %s, %w", resp.Status, err)
			}
			return errors.Join(err, resp.Body.Close())
		}
		if i < 4 {
			client := gatewaytest.NewClient(reach.Conn(t), call.Doc)
			try = func() error { return second(client.Invoke(t.Context(), request(gatewaytest.Echo, arg))) }
		}
		args = append(args, arg)
		running.Go(func() {
			for ctx.Err() == nil {
				if err := try(); err != nil {
					t.Errorf("caller %d lost a call: %v", i, err)
					return
				}
			}
		})
	}
	return args
}

// awaitAll waits until each caller has reached the backend.
func awaitAll(t *testing.T, c *gatewaytest.Capability, args []string) {
	t.Helper()
	check.Until(t, "the calls of each caller", func() (bool, string) {
		came := map[string]bool{}
		for _, seen := range c.Seen() {
			came[string(seen.Request.GetArgsJson())] = true
		}
		for _, arg := range args {
			if !came[arg] {
				return false, fmt.Sprintf("%v, without %s", came, arg)
			}
		}
		return true, ""
	})
}

// TestConnectionsMoveToANewReplica: behind a layer 4 load balancer, every client over gRPC and HTTP/1.1 moves
// to a replica that starts later. No call is lost, and an open stream stays where it is.
func TestConnectionsMoveToANewReplica(t *testing.T) {
	t.Parallel()
	first, old := startAgingReplica(t)
	lb := newBalancer(t, first.Addr)
	stream := make(chan error, 1)
	go func() {
		_, err := gatewaytest.NewClient(first.Conn(t), call.Doc).StreamInvoke(t.Context(),
			request(gatewaytest.Block, `{}`))
		stream <- err
	}()
	check.Received(t, old.Blocked(), "the stream")
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	args := steady(ctx, t, lb.addr, &running)
	awaitAll(t, old, args)
	other, fresh := startAgingReplica(t)
	lb.add(other.Addr)
	awaitAll(t, fresh, args)
	old.Release()
	if err := check.Received(t, stream, "the end of the stream"); err != nil {
		t.Errorf("a stream older than the maximum age of connections: %v", err)
	}
}

// TestRollingRestartLosesNoCall: clients over gRPC and HTTP/1.1 leave a draining replica behind a layer 4 load
// balancer that sends it no new connections, and lose no call.
func TestRollingRestartLosesNoCall(t *testing.T) {
	t.Parallel()
	over, proceed := make(chan struct{}), make(chan struct{})
	old := startFront(t, call.Doc, call.Doc, func(o *gatewaytest.Options) {
		o.Leaving = func() { close(over); <-proceed }
	})
	proceeds := sync.OnceFunc(func() { close(proceed) })
	check.Cleanup(t, proceeds)
	fresh := startFront(t, call.Doc, call.Doc)
	lb := newBalancer(t, old.gateway.Addr)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	args := steady(ctx, t, lb.addr, &running)
	awaitAll(t, old.capability, args)
	old.gateway.Drain()
	check.Received(t, over, "the end of the delay")
	lb.move(fresh.gateway.Addr)
	awaitAll(t, fresh.capability, args[4:]) // over HTTP/1.1; other connections get GOAWAY after the delay
	proceeds()
	old.gateway.Stop(t)
	awaitAll(t, fresh.capability, args)
}

// postKeepAlive posts a call over HTTP/1.1 and returns its status, and whether the connection may be reused.
func postKeepAlive(t *testing.T, g *gatewaytest.Gateway) (status int, stays bool) {
	t.Helper()
	resp, err := g.HTTP1(t).Post(g.URL("/v1/capabilities/caps/invoke"), "application/json",
		strings.NewReader(`{"tool_name":"echo"}`))
	check.Must(t, err)
	check.Must(t, resp.Body.Close())
	return resp.StatusCode, !resp.Close
}

// TestHTTP1ClientsLeaveADrainingReplica: during and after the drain delay, every HTTP/1.1 response has
// Connection: close, also for requests that started earlier. Calls are served.
func TestHTTP1ClientsLeaveADrainingReplica(t *testing.T) {
	t.Parallel()
	over, proceed := make(chan struct{}), make(chan struct{})
	f := startFront(t, call.Doc, call.Doc, func(o *gatewaytest.Options) {
		o.Leaving = func() { close(over); <-proceed }
	})
	proceeds := sync.OnceFunc(func() { close(proceed) })
	check.Cleanup(t, proceeds)
	if status, stays := postKeepAlive(t, f.gateway); status != http.StatusOK || !stays {
		t.Errorf("before the drain: status %d, the connection stays: %t", status, stays)
	}
	before := make(chan *http.Response, 1)
	client := f.gateway.HTTP1(t)
	go func() {
		resp, err := client.Post(f.gateway.URL("/v1/capabilities/caps/invoke"), "application/json",
			strings.NewReader(`{"tool_name":"block"}`))
		if err != nil {
			t.Error(err)
			resp = &http.Response{Body: http.NoBody}
		}
		before <- resp
	}()
	check.Received(t, f.capability.Blocked(), "the call")
	f.gateway.Drain()
	check.Received(t, over, "the end of the delay")
	if status, stays := postKeepAlive(t, f.gateway); status != http.StatusOK || stays {
		t.Errorf("in the drain: status %d, the connection stays: %t", status, stays)
	}
	f.capability.Release()
	resp := check.Received(t, before, "the response")
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !resp.Close {
		t.Errorf("a call from before the drain: status %d, the connection stays: %t", resp.StatusCode, !resp.Close)
	}
	proceeds()
	f.gateway.Stop(t)
}

// TestClientsLeaveAReplicaThatIsNotReady: while a replica cannot serve calls, it closes HTTP/1.1 connections
// after their response, and sends GOAWAY on HTTP/2 connections.
func TestClientsLeaveAReplicaThatIsNotReady(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(*testing.T) *gatewaytest.Gateway{
		"audit": func(t *testing.T) *gatewaytest.Gateway {
			f, _, _ := audited(t, audit.Config{Path: "/dev/full", Required: true, Retry: time.Hour,
				Patience: time.Millisecond}, call.Doc, call.Doc)
			return f.gateway
		},
		"unread state": func(t *testing.T) *gatewaytest.Gateway {
			return startFront(t, call.Doc, call.Doc, func(o *gatewaytest.Options) {
				o.Unread = func() []string { return []string{"rules"} }
			}).gateway
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t)
			check.Until(t, "a replica that is not ready", func() (bool, string) {
				code, body := g.Admin(t, "/readyz")
				return code == http.StatusServiceUnavailable, body
			})
			if _, stays := postKeepAlive(t, g); stays {
				t.Error("the connection of a client over HTTP/1.1 stays")
			}
			c, err := rawhttp2.Dial(g.Addr)
			check.Must(t, err)
			check.Cleanup(t, func() { _ = c.Close() })
			check.Must(t, c.Greet())
			if code, err := c.WaitGoAway(); err != nil || code != 0 {
				t.Errorf("GOAWAY %d, %v", code, err)
			}
		})
	}
}
