package relay

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// rawLink transports a connection over a cleartext TCP socket, with the socket's own read and write calls. One
// goroutine stays inside RawConn.Read for the connection's life, and is woken when the socket is readable.
//
// The descriptor is used only with the shard locked and before close. As that goroutine stays inside RawConn.Read, and
// closes the socket itself after leaving it, the descriptor is never used after it was closed or reused for another
// connection.
type rawLink struct {
	c       *conn
	nc      *net.TCPConn
	rc      syscall.RawConn
	fd      int
	waiting bool // a goroutine waits until the socket is writable
	suspect bool // in shard.suspects
	queued  bool // in shard.runQueue
	size    int  // of the next read
}

func newRawLink(nc *net.TCPConn) (*rawLink, error) {
	rc, err := nc.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &rawLink{nc: nc, rc: rc, size: leastRead}
	return l, rc.Control(func(fd uintptr) { l.fd = int(fd) })
}

// run reads until the connection ends.
func (l *rawLink) run() {
	sh := l.c.sh
	err := l.rc.Read(func(uintptr) (done bool) {
		sh.run(l)
		return false
	})
	sh.lose(l.c, err)
	_ = l.nc.Close()
}

// turn implements turn.
func (l *rawLink) turn() {
	sh := l.c.sh
	sh.limitInput()
	l.come()
	sh.checkSensitive(l.c)
}

// suspectDelay is the delay after which an end of file that arrived together with data is noticed, see read.
const suspectDelay = 50 * time.Millisecond

// leastRead is the minimum size of a read. A connection that receives more is read in larger pieces, up to readBuffer,
// because the rest of a read must be kept.
const leastRead = 32 << 10

// come reads, unless the link is in the run queue.
func (l *rawLink) come() {
	if !l.queued {
		l.read()
	}
}

// resume enters the run queue, which reads.
func (l *rawLink) resume() {
	if !l.queued {
		l.queued, l.c.queuedAt = true, l.c.sh.now
		l.c.sh.enqueue(l, l.c.pool != nil)
	}
}

func (l *rawLink) abandon() { l.queued = false }

func (l *rawLink) runQueued() {
	l.queued = false
	l.c.sh.limitInput()
	l.read()
}

// read reads what the socket has, or as much of it as the turn allows.
//
// A read that does not fill the buffer has emptied the socket, so another read, which would only return EAGAIN, is
// saved: the next byte wakes the goroutine. This does not hold for an end of file that arrived together with the data;
// the shard therefore checks such a socket again a moment later.
func (l *rawLink) read() {
	sh, c := l.c.sh, l.c
	if c.backlog != nil && !c.closed && !c.stalled {
		c.feedBacklog()
		sh.settleReads()
	}
	for !c.closed && !c.stalled {
		if c.backlog != nil || sh.over() {
			l.resume()
			return
		}
		n, err := sysRead(l.fd, sh.buf[frameHeaderLen:frameHeaderLen+l.size])
		switch {
		case err == syscall.EAGAIN:
			return
		case err == syscall.EINTR:
			continue
		case err != nil || n == 0:
			if err == nil {
				err = io.EOF
			}
			c.lost(err)
			return
		}
		c.feed(sh.buf, frameHeaderLen, frameHeaderLen+n)
		switch {
		case c.backlog != nil:
			l.size = max(n-len(c.backlog), leastRead)
		case n == l.size && sh.over():
		case n == l.size:
			l.size = min(l.size*2, readBuffer)
		default:
			if !l.suspect {
				l.suspect = true
				sh.suspects = append(sh.suspects, l)
			}
			return
		}
		sh.settleReads()
	}
}

func (l *rawLink) write(pieces [][]byte) (int, error) {
	total := 0
	for len(pieces) > 0 {
		batch := pieces[:min(len(pieces), maxPieces)]
		want := 0
		for _, p := range batch {
			want += len(p)
		}
		n, err := l.c.sh.sysWrite(l.fd, batch)
		if n > 0 {
			total += n
		}
		if err != nil && err != syscall.EAGAIN && err != syscall.EINTR {
			return total, err
		}
		if n < want {
			l.await()
			return total, nil
		}
		pieces = pieces[len(batch):]
	}
	return total, nil
}

// await calls writable when the socket accepts bytes again. RawConn.Write calls its function once before it waits, so
// no edge is missed.
func (l *rawLink) await() {
	if l.waiting {
		return
	}
	l.waiting = true
	sh := l.c.sh
	sh.relay.wg.Go(func() {
		err := l.rc.Write(func(uintptr) bool {
			sh.enter()
			defer sh.leave()
			sh.limitInput()
			l.c.writable()
			l.waiting = l.c.blocked && !l.c.closed
			return !l.waiting
		})
		if err != nil && !errors.Is(err, net.ErrClosed) {
			sh.lose(l.c, err)
		}
	})
}

func (l *rawLink) holds() int { return 0 }

func (l *rawLink) finish() { _ = l.nc.CloseWrite() }

// close makes run return. Close itself would wait for run, which may wait for the locked shard.
func (l *rawLink) close() { _ = l.nc.SetDeadline(time.Unix(1, 0)) }
