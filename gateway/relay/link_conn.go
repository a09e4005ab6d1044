package relay

import (
	"crypto/tls"
	"net"
	"time"
)

// connLink transports a connection over a net.Conn that is no socket, with or without TLS. Its reads and writes
// block, so each direction has a goroutine.
type connLink struct {
	c         *conn
	nc        net.Conn
	pending   []byte // output; this and the next four fields are guarded by the shard
	writing   int    // number of bytes in the buffer being written
	full      bool   // the conn waits for writable
	ending    bool   // finish was called
	closed    bool
	work      chan struct{} // signals work for the writer
	resumed   chan struct{} // signals that the conn accepts input again
	scheduled chan struct{} // signals that the run queue runs the link
	spent     int64         // processing time since it last waited for input, in nanoseconds
}

// connBuffer is the size of the writer's buffer, as of a socket, and connRead that of the reader's.
const (
	connBuffer = 128 << 10
	connRead   = 32 << 10
)

func newConnLink(nc net.Conn) *connLink {
	return &connLink{nc: nc, work: make(chan struct{}, 1), resumed: make(chan struct{}, 1),
		scheduled: make(chan struct{}, 1)}
}

// run reads until the connection ends, and waits for the writer.
func (l *connLink) run() {
	sh := l.c.sh
	written := make(chan struct{})
	go func() {
		defer close(written)
		defer sh.relay.guardConn(l.nc)
		l.writeAll()
	}()
	buf := make([]byte, frameHeaderLen+connRead)
	for next := reads; next != ends; {
		asked := sh.clock()
		n, err := l.nc.Read(buf[frameHeaderLen:])
		if sh.clock()-asked > timeSlice {
			l.spent = 0
		}
		next = l.take(buf, n, err)
		for ; next == queues; next = l.goOn(err) {
			<-l.scheduled
		}
		if next == stalls {
			<-l.resumed
		}
	}
	<-written
}

// step is the next step of a connLink.
type step uint8

const (
	ends   step = iota // also after a panic
	reads              // reads more input
	queues             // waits until the run queue runs it
	stalls             // waits until the conn accepts input again
)

// take processes the input of a read.
func (l *connLink) take(buf []byte, n int, err error) (next step) {
	sh := l.c.sh
	sh.enter()
	defer sh.leave()
	sh.limitInput()
	if n > 0 {
		l.c.feed(buf, frameHeaderLen, frameHeaderLen+n)
		sh.settle()
	}
	l.spent += sh.clock() - sh.now
	return l.after(err)
}

// goOn processes the remaining input when the run queue runs the link.
func (l *connLink) goOn(err error) (next step) {
	sh := l.c.sh
	sh.enter()
	defer sh.leave()
	sh.limitInput()
	if l.c.backlog != nil && !l.c.closed {
		l.c.feedBacklog()
		sh.settle()
	}
	l.spent = sh.clock() - sh.now
	return l.after(err)
}

// after enters the run queue if the link has used its time slice. err is the error of the read.
func (l *connLink) after(err error) step {
	sh, c := l.c.sh, l.c
	if l.spent > sh.timeSlice() && !c.closed && !c.stalled {
		c.queuedAt = sh.now
		sh.enqueue(l, c.pool != nil)
		return queues
	}
	sh.checkSensitive(c)
	if err != nil {
		c.lost(err)
	}
	switch {
	case c.closed:
		return ends
	case c.stalled:
		return stalls
	}
	return reads
}

func (l *connLink) runQueued() { wake(l.scheduled) }
func (l *connLink) abandon()   { wake(l.scheduled) }

// writeAll runs the writer: it writes pending output until the end.
func (l *connLink) writeAll() {
	sh := l.c.sh
	var buf []byte
	for range l.work {
		for {
			var ending, closed bool
			buf, ending, closed = l.fetch(buf)
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
				sh.failOutput(l.c, err)
			}
		}
	}
}

// fetch returns the pending output, and takes back the written buffer.
func (l *connLink) fetch(written []byte) (pending []byte, ending, closed bool) {
	sh := l.c.sh
	closed = true // also after a panic
	sh.enter()
	defer sh.leave()
	sh.buffers.put(written)
	pending, l.pending = l.pending, nil
	l.writing = cap(pending)
	if !l.c.closed {
		l.c.chargeOutput()
	}
	ending, closed = l.ending, l.closed
	if l.full && !closed {
		l.full = false
		l.c.writable()
	}
	return pending, ending, closed
}

// failOutput handles a failed write to a connection.
func (sh *shard) failOutput(c *conn, err error) {
	sh.enter()
	defer sh.leave()
	c.outputFailed(err)
}

// lose ends a connection whose socket has ended.
func (sh *shard) lose(c *conn, err error) {
	sh.enter()
	defer sh.leave()
	c.lost(err)
}

// shut closes the socket without a TLS alert, for which TLS would wait; closeWrite has sent it.
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

func (l *connLink) holds() int { return cap(l.pending) + l.writing }

func (l *connLink) finish() {
	l.ending = true
	wake(l.work)
}

// close must not wait for a TLS alert to be written. It unblocks both goroutines, and the writer closes the socket.
func (l *connLink) close() {
	l.closed = true
	_ = l.nc.SetDeadline(time.Unix(1, 0))
	wake(l.work)
	wake(l.resumed)
	wake(l.scheduled)
}

func (l *connLink) resume() { wake(l.resumed) }

func wake(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
