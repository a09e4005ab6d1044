package relay

import (
	"crypto/tls"
	"net"
	"time"
)

// connLink carries a connection over any net.Conn: TLS, or a pipe inside the
// process. Reading and writing block there, so each has a goroutine.
type connLink struct {
	c       *conn
	nc      net.Conn
	pending []byte // to be written; this and the next three are guarded by the shard
	full    bool   // the conn waits for writable
	ending  bool   // finish was called
	closed  bool
	work    chan struct{} // the writer has something to do
	resumed chan struct{} // the conn wants input again
}

// connBuffer is how much the writer holds, as a socket would, and how much one read takes.
const (
	connBuffer     = 128 << 10
	connReadBuffer = 32 << 10
)

func newConnLink(nc net.Conn) *connLink {
	return &connLink{nc: nc, work: make(chan struct{}, 1), resumed: make(chan struct{}, 1)}
}

// run reads until the connection ends, and waits for the writer.
func (l *connLink) run() {
	sh := l.c.sh
	written := make(chan struct{})
	go func() {
		defer close(written)
		l.writeAll()
	}()
	buf := make([]byte, frameHeaderLen+connReadBuffer)
	for {
		n, err := l.nc.Read(buf[frameHeaderLen:])
		sh.enter()
		if n > 0 {
			l.c.feed(buf, frameHeaderLen, frameHeaderLen+n)
			sh.settle()
		}
		if err != nil {
			l.c.lost(err)
		}
		stalled, closed := l.c.stalled, l.c.closed
		sh.leave()
		if closed {
			break
		}
		if stalled {
			<-l.resumed
		}
	}
	<-written
}

// writeAll is the writer: it takes what is pending and writes it, until the end.
func (l *connLink) writeAll() {
	sh := l.c.sh
	var buf []byte
	for range l.work {
		for {
			sh.enter()
			sh.buffers.put(buf)
			buf, l.pending = l.pending, nil
			ending, closed := l.ending, l.closed
			if l.full && !closed {
				l.full = false
				l.c.writable()
			}
			sh.leave()
			if closed {
				l.shut()
				return
			}
			if len(buf) == 0 {
				if ending {
					l.closeWrite()
				}
				break
			}
			if _, err := l.nc.Write(buf); err != nil {
				sh.enter()
				l.c.lost(err)
				sh.leave()
			}
		}
	}
}

// shut closes for good. TLS would wait until the peer has taken a last alert; who is
// to be told has been by closeWrite.
func (l *connLink) shut() {
	if tc, ok := l.nc.(*tls.Conn); ok {
		_ = tc.NetConn().Close()
	} else {
		_ = l.nc.Close()
	}
}

func (l *connLink) closeWrite() {
	if half, ok := l.nc.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	} else {
		_ = l.nc.Close()
	}
}

func (l *connLink) write(pieces [][]byte) (int, error) {
	total := 0
	for _, p := range pieces {
		n := min(len(p), connBuffer-len(l.pending))
		l.pending = append(l.c.sh.buffers.grow(l.pending, n), p[:n]...)
		total += n
		if n < len(p) {
			l.full = true
			break
		}
	}
	wake(l.work)
	return total, nil
}

func (l *connLink) finish() {
	l.ending = true
	wake(l.work)
}

// close must not wait for a TLS alert to be written: it unblocks both goroutines,
// and the writer closes.
func (l *connLink) close() {
	l.closed = true
	_ = l.nc.SetDeadline(time.Unix(1, 0))
	wake(l.work)
	wake(l.resumed)
}

func (l *connLink) resume() { wake(l.resumed) }

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
