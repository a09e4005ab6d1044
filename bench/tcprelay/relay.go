// Package tcprelay is a relay of bytes that knows nothing of HTTP/2: the floor for
// any proxy. Go's io.Copy between TCP connections uses splice, so the bytes never
// enter the process. haproxy's TCP mode is the better floor where it is installed.
package tcprelay

import (
	"io"
	"net"
)

// Serve joins every connection that ln accepts to one to backend, until ln is closed.
func Serve(ln net.Listener, backend string) error {
	for {
		in, err := ln.Accept()
		if err != nil {
			return err
		}
		go join(in, backend)
	}
}

func join(in net.Conn, backend string) {
	out, err := net.Dial("tcp", backend)
	if err != nil {
		_ = in.Close()
		return
	}
	done := make(chan struct{})
	go func() {
		move(out, in)
		close(done)
	}()
	move(in, out)
	<-done
	_ = in.Close()
	_ = out.Close()
}

// move copies until from ends, and then ends to's direction.
func move(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(*net.TCPConn); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	_ = to.Close()
	_ = from.Close()
}
