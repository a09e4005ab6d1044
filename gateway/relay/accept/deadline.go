package accept

import (
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept/http1"
)

// deadline is the deadline of a connection's reads or writes. net/http and the http.Handler change it up to ten times
// for a request, which costs a timer of the runtime each time. It is therefore set only for the reads and writes that
// take place.
type deadline struct {
	mu        sync.Mutex
	want, set time.Time // as requested, and of the connection; zero means none
	running   int       // reads or writes
	always    bool      // it is set at once: reads over TLS write, too, when a client updates its keys
}

// change changes the deadline, also of an operation that is running. apply sets that of the connection.
func (d *deadline) change(to time.Time, apply func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.want = to
	if d.running == 0 && !d.always {
		return nil
	}
	return d.update(apply)
}

// begin is called before an operation, and end after it.
func (d *deadline) begin(apply func(time.Time) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running++
	return d.update(apply)
}

func (d *deadline) end() {
	d.mu.Lock()
	d.running--
	d.mu.Unlock()
}

// update makes the deadline that of the connection. The caller must hold mu.
func (d *deadline) update(apply func(time.Time) error) error {
	if d.want.Equal(d.set) {
		return nil
	}
	d.set = d.want
	return apply(d.set)
}

// SetReadDeadline implements net.Conn.
func (c *http1Conn) SetReadDeadline(t time.Time) error {
	return c.reads.change(t, c.Conn.SetReadDeadline)
}

// SetWriteDeadline implements net.Conn.
func (c *http1Conn) SetWriteDeadline(t time.Time) error {
	return c.writes.change(t, c.Conn.SetWriteDeadline)
}

// SetDeadline implements net.Conn.
func (c *http1Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// Await implements http1.Conn.
func (c *http1Conn) Await(try func(fd uintptr) bool) (err error) {
	if c.raw == nil {
		return http1.ErrNoSocket
	}
	defer c.reads.end()
	if err = c.reads.begin(c.Conn.SetReadDeadline); err == nil {
		err = c.raw.Read(try)
	}
	return err
}

// Receive implements http1.Conn.
func (c *http1Conn) Receive(p []byte) (n int, err error) {
	defer c.reads.end()
	if err = c.reads.begin(c.Conn.SetReadDeadline); err == nil {
		n, err = c.Conn.Read(p)
	}
	return n, err
}

// Write implements net.Conn.
func (c *http1Conn) Write(p []byte) (n int, err error) {
	defer c.writes.end()
	if err = c.writes.begin(c.Conn.SetWriteDeadline); err == nil {
		n, err = c.Conn.Write(p)
	}
	return n, err
}
