package http1

import (
	"net"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestIdleConnectionsHoldNoBuffer: a connection has a buffer from the first byte of a request.
func TestIdleConnectionsHoldNoBuffer(t *testing.T) {
	t.Parallel()
	ln := check.Listen(t)
	peer, err := net.Dial("tcp", ln.Addr().String())
	check.Must(t, err)
	defer func() { _ = peer.Close() }()
	nc, err := ln.Accept()
	check.Must(t, err)
	defer func() { _ = nc.Close() }()
	raw, err := nc.(*net.TCPConn).SyscallConn()
	check.Must(t, err)
	c := &conn{waits: true}
	tries := 0
	check.Must(t, raw.Read(func(fd uintptr) bool {
		done := c.read(fd)
		if tries++; done != (c.buf != nil) || !done && tries > 1 {
			t.Errorf("try %d: %t, with a buffer: %t", tries, done, c.buf != nil)
		}
		if !done {
			_, err = peer.Write([]byte("x"))
			check.Must(t, err)
		}
		return done
	}))
	if tries != 2 || c.got != 1 {
		t.Errorf("%d tries, %d bytes", tries, c.got)
	}
}
