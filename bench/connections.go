package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capgate/capgate/bench/h2"
	"github.com/capgate/capgate/bench/peers"
	"github.com/capgate/capgate/bench/proc"
)

// Goals for the memory of an idle connection, in bytes.
const (
	connGoal    = 8 << 10
	tlsConnGoal = 40 << 10
)

// idleConns is one kind of idle connection.
type idleConns struct {
	title string
	tls   bool
	calls int // calls before the connection is idle, each with another timeout, as of grpc-go's clients
	most  int // most connections that the memory of one address allows; streams, if streams wait
	goal  float64
	waits waits
	each  int // waiting streams per connection
}

// conns returns the number of connections for n of what is counted.
func (k idleConns) conns(n int) int { return n / max(k.each, 1) }

func allIdleConns() []idleConns {
	const most, mostTLS, mostListeners = 10000, 4000, 1000
	return []idleConns{
		{title: "new", most: most, goal: connGoal},
		{title: "after ten calls", calls: 10, most: most, goal: connGoal},
		{title: "after a hundred calls", calls: 100, most: most, goal: connGoal},
		{title: "over TLS, new", tls: true, most: mostTLS, goal: tlsConnGoal},
		{title: "over TLS, after ten calls", tls: true, calls: 10, most: mostTLS, goal: tlsConnGoal},
		{title: "its open stream, of 500", most: most, goal: streamGoal, waits: callsWait, each: 500},
		{title: "its MCP listener, of 50", most: mostListeners, goal: listenerGoal, waits: listWait, each: 50},
	}
}

// collect runs the gateway's garbage collector, which otherwise runs every two minutes.
func collect(ctx context.Context, p *peers.Peer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		fmt.Sprintf("http://%s/debug/pprof/heap?gc=1", p.Admin), nil)
	if err != nil {
		return err
	}
	for range 2 { // the second run frees what the first one finds unused
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("heap profile: %s", resp.Status)
		}
	}
	pause(ctx, time.Second)
	return nil
}

// connections measures the memory of idle HTTP/2 connections and of streams that wait on them, before and after garbage
// collection.
func (b *bench) connections(ctx context.Context) (string, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "%s. Connections of one address; less the memory of the gateway before.\n\n", machine())
	out.WriteString("| idle HTTP/2 connection | of these | KiB each | after garbage collection | of it heap | goal | " +
		"|\n|---|---|---|---|---|---|---|\n")
	specs := []peers.Spec{peers.CapgateSpec(b.opts.capgate), peers.CapgateOn(b.opts.capgate)}
	if b.opts.before != "" {
		for _, spec := range slices.Clone(specs) {
			specs = append(specs, peers.Before(spec, b.opts.before))
		}
	}
	for _, kind := range allIdleConns() {
		for _, spec := range specs {
			if kind.tls {
				spec = spec.OverTLS()
			}
			if spec.On && kind.waits == noneWait {
				continue
			}
			n := min(b.opts.idle.streams, kind.most)
			m, err := b.idleConns(ctx, spec, kind, n)
			if err != nil {
				fmt.Fprintf(&out, "| %s, %s | failed: %s | | | | | |\n", spec.Name, kind.title,
					strings.ReplaceAll(err.Error(), "\n", " "))
				continue
			}
			fmt.Fprintf(&out, "| %s, %s | %d | %.2f | %.2f | %.2f | %.0f | %s |\n", spec.Name, kind.title, n,
				m.opened/1024, m.collected/1024, m.heap/1024, kind.goal/1024, goalReached(m.collected, kind.goal))
		}
	}
	return out.String(), nil
}

// idleMemory is the memory per connection or stream, in bytes: resident, resident after garbage collection, and objects
// in use then.
type idleMemory struct{ opened, collected, heap float64 }

func (b *bench) idleConns(ctx context.Context, spec peers.Spec, kind idleConns, n int) (m idleMemory,
	err error) {
	p, err := b.startPeer(ctx, spec, b.env)
	if err != nil {
		return m, err
	}
	defer b.stopPeer(p)
	if err := collect(ctx, p); err != nil {
		return m, err
	}
	before, err := proc.RSS(p.PID)
	if err != nil {
		return m, err
	}
	objects := heapOf(ctx, p).inUse
	conns, err := openConns(p, kind, kind.conns(n))
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	if err != nil {
		return m, err
	}
	if m.opened, err = perConn(p, before, n); err != nil {
		return m, err
	}
	if err := collect(ctx, p); err != nil {
		return m, err
	}
	m.collected, err = perConn(p, before, n)
	m.heap = (heapOf(ctx, p).inUse - objects) / float64(n)
	runtime.KeepAlive(conns)
	return m, err
}

func perConn(p *peers.Peer, before int64, n int) (float64, error) {
	after, err := proc.RSS(p.PID)
	return float64(after-before) / float64(n), err
}

// openConns opens n connections, a few at a time.
func openConns(p *peers.Peer, kind idleConns, n int) ([]net.Conn, error) {
	const atOnce = 16
	var mu sync.Mutex
	var conns []net.Conn
	var failed error
	var workers sync.WaitGroup
	for i := range atOnce {
		workers.Go(func() {
			for range (n + atOnce - 1 - i) / atOnce {
				c, err := openConn(p, kind)
				mu.Lock()
				if c != nil {
					conns = append(conns, c)
				}
				if err != nil && failed == nil {
					failed = fmt.Errorf("after %d connections: %w", len(conns), err)
				}
				over := failed != nil
				mu.Unlock()
				if over {
					return
				}
			}
		})
	}
	workers.Wait()
	return conns, failed
}

// openConn opens a connection and makes its calls.
func openConn(p *peers.Peer, kind idleConns) (net.Conn, error) {
	c, err := net.DialTimeout("tcp", p.Addr.String(), time.Minute)
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return c, err
	}
	scheme := "http"
	if kind.tls {
		// The benchmark created the certificate itself.
		secure := tls.Client(c, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		if c = secure; secure.Handshake() != nil {
			return c, errors.New("the TLS handshake failed")
		}
		scheme = "https"
	}
	u := &connUser{conn: c}
	u.session = h2.NewSession(h2.Config{Client: true}, u)
	fields := []int{
		u.session.Field(":method", "POST"), u.session.Field(":scheme", scheme),
		u.session.Field(":path", h2.PathInvoke), u.session.Field(":authority", p.Addr.String()),
		u.session.Field("content-type", "application/grpc"), u.session.Field("te", "trailers"),
	}
	settled := func() bool { _, ok := u.session.Settled(); return ok }
	if err := u.until(settled); err != nil {
		return c, err
	}
	work := h2.Work{Kind: h2.ReplyWork, Count: 1, Size: 1024}
	body := h2.Body{Msg: h2.InvokeRequest(work, "weather", "bench-session-1", 1024), Count: 1}
	for i := range kind.calls {
		u.session.Open(fields, fmt.Sprintf("%du", 9999999-i), body)
		if err := u.until(func() bool { return u.ended > i }); err != nil {
			return c, err
		}
	}
	if kind.waits != noneWait {
		return c, openStreams(c, p, u, kind)
	}
	return c, errors.Join(u.failed, u.flush())
}

// connUser drives a session over a blocking connection.
type connUser struct {
	conn    net.Conn
	session *h2.Session
	begun   int // streams that have received data
	ended   int
	failed  error
	buf     [8 << 10]byte
}

// until exchanges bytes until done returns true.
func (u *connUser) until(done func() bool) error {
	for !done() {
		if err := u.flush(); err != nil {
			return err
		}
		n, err := u.conn.Read(u.buf[:])
		if err != nil {
			return err
		}
		if err := u.session.Feed(u.buf[:n]); err != nil {
			return err
		}
	}
	return nil
}

func (u *connUser) flush() error {
	u.session.Pump()
	_, err := u.conn.Write(u.session.Out)
	u.session.Out = u.session.Out[:0]
	return err
}

// Headers implements h2.Events.
func (u *connUser) Headers(_ *h2.Stream, h h2.Headers, end bool) error {
	if end {
		u.ended++
		if h.GRPCStatus != "0" {
			u.failed = fmt.Errorf("status %q, grpc-status %q %s", h.Status, h.GRPCStatus, h.GRPCMessage)
		}
	}
	return nil
}

// Data implements h2.Events.
func (u *connUser) Data(st *h2.Stream, p []byte, end bool) error {
	if end {
		u.ended++
		u.failed = fmt.Errorf("the stream ends with %q", p)
	}
	if st.Value == nil {
		st.Value = u
		u.begun++
	}
	return nil
}

// Reset implements h2.Events.
func (u *connUser) Reset(_ *h2.Stream, code uint32) error {
	return fmt.Errorf("stream reset with code %d", code)
}
