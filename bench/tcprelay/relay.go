// Package tcprelay relays bytes without knowledge of HTTP/2: the floor for any proxy. Go's io.Copy between TCP
// connections uses splice, so the bytes never enter the process. If haproxy is installed, its TCP mode is the better
// floor.
package tcprelay

import (
	"io"
	"net"
)

// Serve connects every connection that ln accepts with a new connection to backend, until ln is closed.
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

// move copies until from ends, then half-closes to.
func move(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(*net.TCPConn); ok && err == nil {
		_ = half.CloseWrite()
		return
	}
	_ = to.Close()
	_ = from.Close()
}
