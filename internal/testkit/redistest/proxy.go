package redistest

import (
	"io"
	"net"
	"sync"
	"time"
)

// Proxy is a way to a server, on a port of 127.0.0.1 that stays the same.
type Proxy struct {
	Addr string // host:port

	network, target string
	listener        net.Listener
	serving         sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	delay   time.Duration
	hole    *hole         // nil: none
	stopped chan struct{} // closed when the proxy ends
	conns   map[net.Conn]struct{}
}

// hole is where bytes do not come out again.
type hole struct {
	of   func(client net.Conn) bool // whose; nil: everybody's
	ends chan struct{}              // closed when they do
}

// NewProxy lets bytes pass to and from an address until the test ends.
func NewProxy(t TB, network, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("proxy: %v", err)
	}
	return serve(t, listener, network, target)
}

func serve(t TB, listener net.Listener, network, target string) *Proxy {
	p := &Proxy{
		Addr: listener.Addr().String(), network: network, target: target, listener: listener,
		stopped: make(chan struct{}), conns: map[net.Conn]struct{}{},
	}
	p.serving.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Delay makes whatever is sent to the server wait for d: every command, when one waits
// for the answer to the last.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// BlackHole lets nothing pass, and connections be made, until Heal.
func (p *Proxy) BlackHole() { p.BlackHoleOf(nil) }

// BlackHoleOf is a BlackHole for some clients. It asks of about the connections that they
// made.
func (p *Proxy) BlackHoleOf(of func(client net.Conn) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hole == nil {
		p.hole = &hole{of, make(chan struct{})}
	}
}

// Heal ends a delay and a black hole.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = 0
	if p.hole != nil {
		close(p.hole.ends)
		p.hole = nil
	}
}

// Cut ends every connection.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	close(p.stopped)
	_ = p.listener.Close()
	p.Cut()
	p.serving.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		if p.keep(client) {
			p.serving.Go(func() { p.carry(client) })
		}
	}
}

// keep remembers a connection, so that it can be cut, or closes it.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = c.Close()
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close()
}

// carry joins a client with the server until one of them leaves.
func (p *Proxy) carry(client net.Conn) {
	defer p.forget(client)
	server, err := net.Dial(p.network, p.target)
	if err != nil || !p.keep(server) {
		return
	}
	defer p.forget(server)
	var answers sync.WaitGroup
	answers.Go(func() { p.copy(client, server, func() { p.wait(client, 0) }) })
	p.copy(server, client, func() { p.wait(client, p.slowness()) })
	answers.Wait()
}

// copy passes bytes on until either side is closed, and closes the other. Before each
// piece it calls wait.
func (p *Proxy) copy(to io.WriteCloser, from io.ReadCloser, wait func()) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			wait()
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *Proxy) slowness() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.delay
}

// wait is what a client's bytes suffer on their way.
func (p *Proxy) wait(client net.Conn, delay time.Duration) {
	p.mu.Lock()
	hole := p.hole
	p.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-p.stopped:
		}
	}
	if hole != nil && (hole.of == nil || hole.of(client)) {
		select {
		case <-hole.ends:
		case <-p.stopped:
		}
	}
}
