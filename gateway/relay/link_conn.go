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
	turned  chan struct{} // it is its turn in shard.line
	spent   int64         // on its input since it last had to wait for some, in nanoseconds
}

// connBuffer is how much the writer holds, as a socket would, and how much one read takes.
const (
	connBuffer     = 128 << 10
	connReadBuffer = 32 << 10
)

func newConnLink(nc net.Conn) *connLink {
	return &connLink{nc: nc, work: make(chan struct{}, 1), resumed: make(chan struct{}, 1), turned: make(chan struct{}, 1)}
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
		asked := sh.clock()
		n, err := l.nc.Read(buf[frameHeaderLen:])
		if sh.clock()-asked > turn {
			l.spent = 0
		}
		sh.enter()
		sh.hurry()
		if n > 0 {
			l.c.feed(buf, frameHeaderLen, frameHeaderLen+n)
			sh.settle()
		}
		l.takeTurns()
		sh.notice(l.c)
		if err != nil {
			l.c.lost(err)
		}
		if l.c.closed {
			sh.leave()
			break
		}
		stalled := l.c.stalled
		sh.leave()
		if stalled {
			<-l.resumed
		}
	}
	<-written
}

// takeTurns waits in the line with what was read and not dealt with.
func (l *connLink) takeTurns() {
	sh := l.c.sh
	for l.spent += sh.clock() - sh.now; l.spent > sh.turn() && !l.c.closed && !l.c.stalled; l.spent = sh.clock() - sh.now {
		l.c.lined = sh.now
		sh.queueUp(l, l.c.pool != nil)
		sh.leave()
		<-l.turned
		sh.enter()
		sh.hurry()
		if l.c.backlog != nil {
			l.c.feedBacklog()
			sh.settle()
		}
	}
}

func (l *connLink) turn() { wake(l.turned) }

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
	wake(l.turned)
}

func (l *connLink) resume() { wake(l.resumed) }

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
