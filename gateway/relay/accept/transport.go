package accept

import (
	"io"
	"net"
	"time"
)

// Transport is the connection below TLS, whose user may take over its reads and writes after the handshake.
type Transport struct {
	net.Conn
	taken io.ReadWriter // nil means that TLS uses Conn
}

// Below returns the connection below TLS.
func (t *Transport) Below() net.Conn { return t.Conn }

// TakeOver makes TLS read from rw and write to it. The caller must not use TLS concurrently.
func (t *Transport) TakeOver(rw io.ReadWriter) { t.taken = rw }

// Read implements net.Conn.
func (t *Transport) Read(p []byte) (int, error) {
	if t.taken != nil {
		return t.taken.Read(p)
	}
	return t.Conn.Read(p)
}

// Write implements net.Conn.
func (t *Transport) Write(p []byte) (int, error) {
	if t.taken != nil {
		return t.taken.Write(p)
	}
	return t.Conn.Write(p)
}

// SetWriteDeadline implements net.Conn. TLS sets a deadline for its last alert, which has no effect after TakeOver.
func (t *Transport) SetWriteDeadline(at time.Time) error {
	if t.taken != nil {
		return nil
	}
	return t.Conn.SetWriteDeadline(at)
}
