package relay

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept"
)

// connLink transports a connection over a net.Conn other than TCP, such as TLS. Its reads and writes block, so each
// direction has a goroutine.
type connLink struct {
	c         *conn
	nc        net.Conn
	pending   []byte // output; this and the next four fields are guarded by the shard
	writing   int    // number of bytes in the buffer being written, and in that of the socket
	full      bool   // the conn waits for writable
	ending    bool   // finish was called
	closed    bool
	work      chan struct{} // signals work for the writer
	resumed   chan struct{} // signals that the conn accepts input again
	scheduled chan struct{} // signals that the run queue runs the link
	spent     int64         // processing time since it last waited for input, in nanoseconds

	socket gatherer // of TLS; nil means none
	sent   int64    // bytes; of the writer alone

	// With input, the link waits for bytes without a read buffer, and has a long one only while there is much to read.
	input accept.Input // the socket below TLS; nil means unknown
	// taken is the number of its records that were read from TLS at least. There may be more of them: messages of a
	// handshake, key updates, and records that fill a short buffer. A read that finds no input corrects it.
	taken  int64
	filled bool // the last read has filled its buffer
	long   bool // the next read has a long buffer; guarded by the shard
}

// connBuffer is the size of the writer's buffer, as of a socket. The others are those of a read, after the room for a
// frame's header. The long one holds any record.
const (
	connBuffer = 128 << 10
	longRead   = 32 << 10
	shortRead  = 4 << 10
)

// gatherer is an accept.Gatherer.
type gatherer interface {
	Hold()
	Flush() error
}

var (
	longReads  = sync.Pool{New: func() any { return new([longRead]byte) }}
	shortReads = sync.Pool{New: func() any { return new([shortRead]byte) }}
)

// readBuffer returns a buffer for the next read.
func (l *connLink) readBuffer() []byte {
	if l.long {
		return longReads.Get().(*[longRead]byte)[:]
	}
	return shortReads.Get().(*[shortRead]byte)[:]
}

func releaseRead(buf []byte) {
	if len(buf) == longRead {
		longReads.Put((*[longRead]byte)(buf))
	} else {
		shortReads.Put((*[shortRead]byte)(buf))
	}
}

func newConnLink(nc net.Conn) *connLink {
	l := &connLink{nc: nc, work: make(chan struct{}, 1), resumed: make(chan struct{}, 1),
		scheduled: make(chan struct{}, 1)}
	if tc, ok := nc.(*tls.Conn); ok {
		l.socket, _ = tc.NetConn().(gatherer)
		if l.input, _ = tc.NetConn().(accept.Input); l.input != nil {
			l.input.NoWait()
		}
		if tc.ConnectionState().Version >= tls.VersionTLS13 {
			l.taken = 1 // the last message of the handshake
		}
	}
	l.long = l.input == nil
	return l
}

// read reads into a buffer, which it returns. It waits without one, and may read nothing.
func (l *connLink) read() (buf []byte, n int, err error) {
	if l.drained() {
		l.input.Await()
	}
	buf = l.readBuffer()
	n, err = l.nc.Read(buf[frameHeaderLen:])
	if errors.Is(err, accept.ErrNoInput) {
		l.taken, l.filled = l.input.Records(), false
		return buf, n, nil
	}
	if l.filled = n == len(buf)-frameHeaderLen; !l.filled || len(buf) == longRead {
		l.taken++
	}
	return buf, n, err
}

// drained reports whether TLS has no complete record. A read returns at least one record, if the buffer has room for
// it.
func (l *connLink) drained() bool { return l.input != nil && l.taken >= l.input.Records() }

// resize chooses the buffer of the next read, and charges a long one.
func (l *connLink) resize() {
	if l.input == nil {
		return
	}
	c := l.c
	switch long := !l.drained() && (l.long || l.filled); {
	case c.closed || long == l.long:
	case !long:
		l.long, c.copied = false, 0
		c.recount()
	default:
		if n := c.charge(c.input() + longRead); c.own.add(n - c.charged) {
			l.long, c.copied, c.charged = true, longRead, n
		}
	}
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
	for next := reads; next != ends; {
		asked := sh.clock()
		buf, n, err := l.read()
		if sh.clock()-asked > timeSlice {
			l.spent = 0
		}
		next = l.take(buf, n, err)
		releaseRead(buf)
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
	l.resize()
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
			if err := l.send(buf); err != nil {
				sh.lose(l.c, err)
			}
		}
	}
}

// Sizes of records of crypto/tls: a connection's first bytes are in small ones, which a client can decrypt sooner.
const (
	tlsRecord      = 16 << 10
	tlsFirst       = 128 << 10
	tlsFirstRecord = 1 << 10
)

// gathers reports whether TLS makes several records of a write.
func (l *connLink) gathers(n int) bool {
	return l.socket != nil && (n > tlsRecord || l.sent < tlsFirst && n > tlsFirstRecord)
}

// send writes output. The records of TLS are written together.
func (l *connLink) send(buf []byte) error {
	if !l.gathers(len(buf)) {
		_, err := l.nc.Write(buf)
		l.sent += int64(len(buf))
		return err
	}
	l.socket.Hold()
	_, err := l.nc.Write(buf)
	l.sent += int64(len(buf))
	if flushed := l.socket.Flush(); err == nil {
		err = flushed
	}
	return err
}

// fetch returns the pending output, and takes back the written buffer.
func (l *connLink) fetch(written []byte) (pending []byte, ending, closed bool) {
	sh := l.c.sh
	closed = true // also after a panic
	sh.enter()
	defer sh.leave()
	sh.buffers.put(written)
	pending, l.pending = l.pending, nil
	if l.writing = cap(pending); l.gathers(len(pending)) {
		l.writing += accept.GatherBytes
	}
	if !l.c.closed {
		l.c.unsent = cap(l.c.out.buf) + l.writing
		l.c.recount()
	}
	ending, closed = l.ending, l.closed
	if l.full && !closed {
		l.full = false
		l.c.writable()
	}
	return pending, ending, closed
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
