package relay

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// rawLink transports a connection over a socket, with the socket's own read and write calls. One goroutine stays inside
// RawConn.Read for the connection's life, and is woken when the socket is readable.
//
// The descriptor is used only with the shard locked and before close. As that goroutine stays inside RawConn.Read, and
// closes the socket itself after leaving it, the descriptor is never used after it was closed or reused for another
// connection.
type rawLink struct {
	c       *conn
	nc      socket
	rc      syscall.RawConn
	tls     *tlsLayer // nil means cleartext
	fd      int
	waiting bool // a goroutine waits until the socket is writable
	suspect bool // in shard.suspects
	queued  bool // in shard.runQueue
	size    int  // of the next read
}

// socket is a *net.TCPConn, or a *net.UnixConn of a stream.
type socket interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// socketOf returns nil if the connection is no socket, or one that hides its bytes behind its own methods.
func socketOf(nc net.Conn) socket {
	switch nc := nc.(type) {
	case *net.TCPConn:
		return nc
	case *net.UnixConn:
		if nc.LocalAddr().Network() == "unix" {
			return nc
		}
	}
	return nil
}

// newRawLink returns the link of a connection over a socket, with or without TLS; nil if it is another connection.
func newRawLink(nc net.Conn) (*rawLink, error) {
	s, tc := socketOf(nc), (*tls.Conn)(nil)
	var lower below
	if s == nil {
		if tc, _ = nc.(*tls.Conn); tc != nil {
			if lower, _ = tc.NetConn().(below); lower != nil {
				s = socketOf(lower.Below())
			}
		}
	}
	if s == nil {
		return nil, nil //nolint:nilnil // as documented
	}
	rc, err := s.SyscallConn()
	if err != nil {
		return nil, err
	}
	l := &rawLink{nc: s, rc: rc, size: leastRead}
	if err := rc.Control(func(fd uintptr) { l.fd = int(fd) }); err != nil {
		return nil, err
	}
	if tc != nil {
		l.tls = &tlsLayer{link: l, conn: tc}
		lower.TakeOver(l.tls)
	}
	return l, nil
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
	if l.tls != nil {
		l.tls.drained = false
	}
	if c.backlog != nil && !c.closed && !c.stalled {
		c.feedBacklog()
		sh.settleReads()
	}
	for !c.closed && !c.stalled {
		if c.backlog != nil || sh.over() {
			l.resume()
			return
		}
		n, err := l.receive(sh.buf[frameHeaderLen : frameHeaderLen+l.size])
		switch {
		case err == syscall.EAGAIN:
			if l.tls != nil && l.tls.drained {
				l.suspectEnd()
			}
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
		case n == l.size && sh.over() || l.tls != nil && (l.tls.ended != nil || l.tls.more):
		case n == l.size:
			l.size = min(l.size*2, l.most())
		default:
			l.suspectEnd()
			return
		}
		sh.settleReads()
	}
}

// receive reads into p. Its error is EAGAIN if there is nothing to read.
func (l *rawLink) receive(p []byte) (int, error) {
	if l.tls != nil {
		return l.tls.receive(p)
	}
	return sysRead(l.fd, p)
}

// most returns the maximum size of a read.
func (l *rawLink) most() int {
	if l.tls != nil {
		return tlsRead
	}
	return readBuffer
}

// suspectEnd makes the shard check the socket again.
func (l *rawLink) suspectEnd() {
	if !l.suspect {
		l.suspect = true
		l.c.sh.suspects = append(l.c.sh.suspects, l)
	}
}

func (l *rawLink) write(pieces [][]byte) (int, error) {
	if l.tls != nil {
		return l.tls.send(pieces)
	}
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
			if l.tls == nil || l.tls.writable() {
				l.c.writable()
			}
			l.waiting = (l.c.blocked || l.holds() > 0) && !l.c.closed
			return !l.waiting
		})
		if err != nil && !errors.Is(err, net.ErrClosed) {
			sh.lose(l.c, err)
		}
	})
}

func (l *rawLink) holds() int {
	if l.tls != nil {
		return cap(l.tls.out)
	}
	return 0
}

func (l *rawLink) finish() {
	if l.tls == nil || l.tls.finish() {
		_ = l.nc.CloseWrite()
	}
}

// close makes run return. Close itself would wait for run, which may wait for the locked shard. TLS sends no alert:
// finish has sent it.
func (l *rawLink) close() {
	if l.tls != nil {
		l.tls.forget()
	}
	_ = l.nc.SetDeadline(time.Unix(1, 0))
}
