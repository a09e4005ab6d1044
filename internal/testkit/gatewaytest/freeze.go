package gatewaytest

import (
	"net"
	"sync"
)

// Freezer is a listener whose server can freeze, like a process after SIGSTOP: the kernel accepts connections and
// acknowledges bytes, but the server neither reads nor writes.
type Freezer struct {
	net.Listener

	mu   sync.Mutex
	gate chan struct{} // closed: the server runs
}

// NewFreezer returns a Freezer whose server runs.
func NewFreezer(ln net.Listener) *Freezer {
	f := &Freezer{Listener: ln}
	f.Thaw()
	return f
}

// Freeze stops the server.
func (f *Freezer) Freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gate = make(chan struct{})
}

// Thaw resumes the server.
func (f *Freezer) Thaw() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gate == nil {
		f.gate = make(chan struct{})
	}
	select {
	case <-f.gate:
	default:
		close(f.gate)
	}
}

// wait waits while the server is frozen.
func (f *Freezer) wait() {
	f.mu.Lock()
	gate := f.gate
	f.mu.Unlock()
	<-gate
}

// Accept implements net.Listener.
func (f *Freezer) Accept() (net.Conn, error) {
	nc, err := f.Listener.Accept()
	f.wait()
	if err != nil {
		return nil, err
	}
	return freezing{nc, f}, nil
}

type freezing struct {
	net.Conn
	of *Freezer
}

// Read implements net.Conn.
func (c freezing) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.of.wait()
	return n, err
}

// Write implements net.Conn.
func (c freezing) Write(p []byte) (int, error) {
	c.of.wait()
	return c.Conn.Write(p)
}
