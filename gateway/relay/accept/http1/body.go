package http1

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// body is the body of a request. It is read from the buffer, and then from the connection, and never beyond its end.
type body struct {
	conn  *conn
	whole bool         // it was empty from the start
	left  atomic.Int64 // bytes that were not read

	mu     sync.Mutex // held during reads
	here   []byte     // of the bytes left, those in the buffer
	closed bool
}

func (b *body) init(c *conn, here []byte, length int) {
	b.conn, b.here, b.whole = c, here, length == 0
	b.left.Store(int64(length))
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.read(p)
}

// read reads like Read. The caller must hold mu.
func (b *body) read(p []byte) (n int, err error) {
	left := b.left.Load()
	if left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), left)]
	switch {
	case len(p) == 0:
		return 0, nil
	case len(b.here) > 0:
		n = copy(p, b.here)
		b.here = b.here[n:]
	default:
		if n, err = b.conn.nc.Receive(p); err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
	}
	if left = b.left.Add(-int64(n)); left == 0 {
		return n, io.EOF
	}
	if err != nil {
		b.conn.fail()
	}
	return n, err
}

// Close implements io.Closer. It reads the rest, so that the connection can be used for another request.
func (b *body) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	b.closed = true
	return b.discard()
}

// drain reads the rest before the response, because some clients send their whole request before they read, and closes
// the body. It reports whether it has ended.
func (b *body) drain() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	return b.discard() == nil
}

// discard reads the rest. The caller must hold mu.
func (b *body) discard() error {
	var p [512]byte
	for b.left.Load() > 0 {
		if _, err := b.read(p[:]); err != nil && err != io.EOF {
			return err
		}
	}
	return nil
}

// end closes the body after the response. A read of another goroutine is interrupted.
func (b *body) end() {
	if b.whole {
		return
	}
	if !b.mu.TryLock() {
		_ = b.conn.nc.SetReadDeadline(time.Unix(1, 0))
		b.mu.Lock()
	}
	defer b.mu.Unlock()
	b.closed, b.here = true, nil
	if b.left.Load() > 0 {
		b.conn.failed.Store(true)
	}
}
