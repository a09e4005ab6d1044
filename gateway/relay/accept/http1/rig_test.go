package http1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/capgate/capgate/internal/testkit/check"
)

// rig is a Server on a port.
type rig struct {
	*Server
	addr   string
	given  chan string // the bytes of connections that were handed over
	panics chan any
	ended  sync.WaitGroup // of connections
	socket bool           // connections are known to be sockets
}

// accepted is a connection of a rig.
type accepted struct {
	net.Conn
	raw    syscall.RawConn
	unread chan struct{}
}

func (c *accepted) Receive(p []byte) (int, error) { return c.Read(p) }
func (c *accepted) Value(any) any                 { return nil }
func (c *accepted) Unread()                       { close(c.unread) }

func (c *accepted) Await(try func(uintptr) bool) error {
	if c.raw == nil {
		return ErrNoSocket
	}
	return c.raw.Read(try)
}

// both runs a test with sockets, and with other connections.
func both(t *testing.T, test func(t *testing.T, socket bool)) {
	for _, socket := range []bool{true, false} {
		t.Run(fmt.Sprintf("socket %t", socket), func(t *testing.T) {
			t.Parallel()
			test(t, socket)
		})
	}
}

func serve(t *testing.T, socket bool, h http.HandlerFunc) *rig {
	ln := check.Listen(t)
	r := &rig{addr: ln.Addr().String(), given: make(chan string, 10), panics: make(chan any, 10), socket: socket}
	r.Server = New(Config{
		Handler:  h,
		HandOver: func(c Conn, unread []byte) { r.given <- string(unread); _ = c.Close() },
		Panicked: func(_ string, v any) { r.panics <- v },
		Setup:    check.Patience, Idle: check.Patience,
	})
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			r.ended.Go(func() { r.accept(nc) })
		}
	})
	check.Cleanup(t, func() {
		_ = ln.Close()
		accepting.Wait()
		r.Close()
		check.Ended(t, &r.ended, "the connections")
	})
	return r
}

func (r *rig) accept(nc net.Conn) {
	c := &accepted{Conn: nc, unread: make(chan struct{})}
	if r.socket {
		c.raw, _ = nc.(*net.TCPConn).SyscallConn()
	}
	if !r.Serve(c, nil) {
		_ = nc.Close()
	}
}

// client is a raw client.
type client struct {
	net.Conn
	t  *testing.T
	in *bufio.Reader
}

func (r *rig) dial(t *testing.T) *client {
	nc, err := net.Dial("tcp", r.addr)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = nc.Close() })
	check.Must(t, nc.SetDeadline(time.Now().Add(check.Patience)))
	return &client{nc, t, bufio.NewReader(nc)}
}

func (c *client) send(text string) {
	c.t.Helper()
	_, err := io.WriteString(c, text)
	check.Must(c.t, err)
}

// want reads a response and compares its body.
func (c *client) want(body string) *http.Response {
	c.t.Helper()
	resp, err := http.ReadResponse(c.in, nil)
	check.Must(c.t, err)
	got, err := io.ReadAll(resp.Body)
	if string(got) != body || err != nil {
		c.t.Errorf("%d bytes, %.50q, %v, want %d, %.50q", len(got), got, err, len(body), body)
	}
	return resp
}

// wantEnd reads the end of the connection.
func (c *client) wantEnd() {
	c.t.Helper()
	if b, err := c.in.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Errorf("not the end: %q, %v", b, err)
	}
}

const get = "GET / HTTP/1.1\r\nHost: a\r\n\r\n"

func post(body string) string {
	return fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// echo responds with the body of a request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body)
}
