package redistest

import (
	"io"
	"net"
	"sync"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Proxy forwards to a server, from a fixed port of 127.0.0.1.
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

// hole is a black hole for bytes.
type hole struct {
	of   func(client net.Conn) bool // selects clients; nil for all
	ends chan struct{}              // closed at its end
}

// NewProxy forwards to an address until the test ends.
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
	check.Cleanup(t, p.close)
	return p
}

// Delay delays everything that is sent to the server by d: each command, if clients wait for its response before the
// next one.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// BlackHole drops all bytes, but accepts connections, until Heal.
func (p *Proxy) BlackHole() { p.BlackHoleOf(nil) }

// BlackHoleOf is BlackHole for the clients whose connections of selects.
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

// Cut closes every connection.
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

// keep registers a connection for Cut, or closes it.
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

// carry connects a client with the server until one of them closes.
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

// copy forwards bytes until either side is closed, then closes the other. It calls wait before each write.
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

// wait applies the delay and the black hole to a client's bytes.
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
