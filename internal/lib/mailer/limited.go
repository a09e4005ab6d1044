package mailer

import (
	"errors"
	"net"
)

// maxAnswers bounds the bytes of a server in a session, with those of TLS.
const maxAnswers = 256 << 10

var errTooLong = errors.New("the server's answers are too long")

// limitedConn ends a session when the server has sent too much.
type limitedConn struct {
	net.Conn
	left int
}

// Read implements net.Conn.
func (c *limitedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooLong
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
