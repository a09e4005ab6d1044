package http1

import (
	"bufio"
	"errors"
	"io"
	"sync"
	"syscall"
)

// ErrNoSocket is the error of Conn.Await for a connection that is no socket, or one with TLS.
var ErrNoSocket = errors.New("http1: the connection is not a socket")

// buffers is the memory of a connection while it has a request.
type buffers struct {
	in   [4 << 10]byte
	out  *bufio.Writer   // of the same size
	held [heldBytes]byte // the start of a response's body
}

var buffersPool = sync.Pool{New: func() any { return &buffers{out: bufio.NewWriterSize(nil, 4<<10)} }}

func (c *conn) acquire() {
	if c.buf == nil {
		c.buf = buffersPool.Get().(*buffers)
		c.buf.out.Reset(c)
	}
}

func (c *conn) release() {
	if c.buf != nil {
		c.buf.out.Reset(nil)
		buffersPool.Put(c.buf)
		c.buf = nil
	}
}

// receive reads more bytes. If waits is false, it reads only what the client has sent already.
func (c *conn) receive(waits bool) error {
	c.compact()
	c.got, c.err, c.waits = 0, nil, waits
	err := c.nc.Await(c.try)
	if err == ErrNoSocket && waits { //nolint:errorlint // it is a constant
		c.acquire()
		c.got, err = c.nc.Receive(c.buf.in[c.to:])
	}
	c.to += c.got
	if err == nil {
		err = c.err
	}
	return err
}

// compact moves the unread bytes to the start of the buffer.
func (c *conn) compact() {
	if c.from > 0 {
		c.to = copy(c.buf.in[:], c.buf.in[c.from:c.to])
		c.from = 0
	}
}

// read reads from the socket. It releases the buffer while the client sends nothing. It reports whether it is done.
func (c *conn) read(fd uintptr) bool {
	c.acquire()
	for {
		n, err := syscall.Read(int(fd), c.buf.in[c.to:])
		switch {
		case err == syscall.EINTR:
			continue
		case err == syscall.EAGAIN && c.waits:
			c.release()
			return false
		case n > 0:
			c.got = n
		case err == nil:
			c.err = io.EOF
		default:
			c.err = err
		}
		return true
	}
}
