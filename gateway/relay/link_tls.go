package relay

import (
	"crypto/tls"
	"io"
	"net"
	"syscall"
)

// tlsLayer is TLS between a connection and its socket. It decrypts what the socket has in the turn that reads, and
// encrypts all output of a turn in as few records as possible, so that a connection over TLS is read and written in
// pieces like any other. Its methods are called with the shard locked, by rawLink or, as an io.ReadWriter below TLS, by
// crypto/tls within receive, send and finish.
type tlsLayer struct {
	link    *rawLink
	conn    *tls.Conn
	ended   error  // the end of the input, which follows the received data
	drained bool   // the socket is empty, unless its end arrived with the last bytes
	more    bool   // the last receive ended with its turn, so crypto/tls may have data
	direct  bool   // the next record goes to the socket at once
	last    bool   // finish was called
	ahead   int    // bytes of data that are being sent, for the first buffer of out
	sent    int64  // bytes of data since the start
	out     []byte // records that wait for the socket, or for the next ones
}

const (
	// tlsRead is the maximum size of a read: decrypting costs more time than reading.
	tlsRead = 64 << 10
	// tlsOutput is the number of bytes of records that are written at once.
	tlsOutput = 64 << 10
	// tlsBacklog is the maximum number of bytes of records that wait for the socket. More than tlsOutput are the
	// responses to key updates of a peer that does not read.
	tlsBacklog = 2 * tlsOutput

	// tlsRecord is the size of a record of crypto/tls. Those of a connection's first tlsFirst bytes are smaller: a
	// client can decrypt them sooner.
	tlsRecord   = 16 << 10
	tlsOverhead = 256 // of an encrypted record, at most
	tlsFirst    = 128 << 10
)

// below is an accept.Transport.
type below interface {
	Below() net.Conn
	TakeOver(io.ReadWriter)
}

// receive decrypts into p until that is full, the socket is empty, or the turn is over: records may be so small that a
// turn reads only a part of them.
func (t *tlsLayer) receive(p []byte) (n int, err error) {
	for t.more = false; n < len(p) && t.ended == nil; {
		if t.more = n > 0 && t.link.c.sh.over(); t.more {
			break
		}
		var m int
		m, err = t.conn.Read(p[n:])
		if n += m; err == syscall.EAGAIN {
			break
		}
		t.ended = err
	}
	var failed error
	if len(t.out) > 0 {
		if _, failed = t.flush(); failed == nil {
			t.link.c.chargeOutput()
		}
	}
	switch {
	case n > 0: // also if the output has failed: the peer may have responded before it closed the connection
		return n, nil
	case t.ended != nil:
		return 0, t.ended
	case failed != nil:
		return 0, failed
	}
	return 0, syscall.EAGAIN
}

// Read implements io.Reader for crypto/tls, which continues after EAGAIN.
func (t *tlsLayer) Read(p []byte) (int, error) {
	for !t.drained {
		n, err := sysRead(t.link.fd, p)
		switch {
		case err == syscall.EINTR:
			continue
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		}
		t.drained = n < len(p)
		return n, nil
	}
	return 0, syscall.EAGAIN
}

// send implements link.write. It encrypts no data while the socket has records to accept.
func (t *tlsLayer) send(pieces [][]byte) (total int, err error) {
	if len(t.out) > 0 {
		return 0, nil
	}
	for _, p := range pieces {
		t.ahead += len(p)
	}
	t.direct = t.ahead <= tlsRecord && t.sent >= tlsFirst
	defer func() { t.direct, t.ahead = false, 0 }()
	for at := 0; len(pieces) > 0; {
		var data []byte
		data, pieces, at = t.next(pieces, at)
		n, err := t.conn.Write(data)
		if total, t.sent = total+n, t.sent+int64(n); err != nil {
			return total, err
		}
		if len(t.out)+tlsRecord+tlsOverhead > tlsOutput || len(pieces) == 0 {
			if done, err := t.flush(); !done || err != nil {
				return total, err
			}
		}
	}
	return total, nil
}

// next returns the data of the next record, and the position of the rest: pieces[0][at:] follows.
func (t *tlsLayer) next(pieces [][]byte, at int) (data []byte, rest [][]byte, restAt int) {
	if p := pieces[0][at:]; len(pieces) == 1 || len(p) >= tlsRecord {
		if len(p) <= tlsRecord {
			return p, pieces[1:], 0
		}
		return p[:tlsRecord], pieces, at + tlsRecord
	}
	sh := t.link.c.sh
	if sh.record == nil {
		sh.record = make([]byte, 0, tlsRecord)
	}
	data = sh.record
	for len(pieces) > 0 && len(data) < tlsRecord {
		n := min(len(pieces[0])-at, tlsRecord-len(data))
		data = append(data, pieces[0][at:at+n]...)
		if at += n; at == len(pieces[0]) {
			pieces, at = pieces[1:], 0
		}
	}
	return data, pieces, at
}

// Write implements io.Writer for crypto/tls. It accepts a whole record.
func (t *tlsLayer) Write(p []byte) (int, error) {
	sh, size := t.link.c.sh, len(p)
	if t.direct && len(t.out) == 0 {
		n, err := t.writeSocket(p)
		if p = p[n:]; err != nil {
			return n, err
		}
	}
	if len(p) == 0 {
		return size, nil
	}
	if len(t.out)+len(p) > tlsBacklog {
		return 0, errNotReading
	}
	if t.out == nil {
		t.out = sh.buffers.get(min(max(len(p), t.ahead+(t.ahead/tlsRecord+1)*tlsOverhead), tlsOutput))
	}
	t.out = append(sh.buffers.grow(t.out, len(p)), p...)
	return size, nil
}

// writeSocket writes as much of p as the socket accepts.
func (t *tlsLayer) writeSocket(p []byte) (int, error) {
	for {
		n, err := t.link.c.sh.sysWrite(t.link.fd, [][]byte{p})
		switch err {
		case syscall.EINTR:
		case syscall.EAGAIN:
			return max(n, 0), nil
		default:
			return max(n, 0), err
		}
	}
}

// flush writes the records. It returns false if the socket has not accepted all; the link then waits for it.
func (t *tlsLayer) flush() (done bool, err error) {
	if len(t.out) == 0 {
		return true, nil
	}
	n, err := t.writeSocket(t.out)
	if err != nil {
		return false, err
	}
	buffers := &t.link.c.sh.buffers
	if n == len(t.out) {
		t.forget()
		return true, nil
	}
	if n > 0 {
		rest := append(buffers.get(len(t.out)-n), t.out[n:]...)
		buffers.put(t.out)
		t.out = rest
	}
	t.link.await()
	return false, nil
}

// writable continues when the socket accepts bytes again. It returns true once all records were written.
func (t *tlsLayer) writable() (done bool) {
	c := t.link.c
	if c.closed {
		return true
	}
	done, err := t.flush()
	if err != nil {
		c.outputFailed(err)
		return false
	}
	c.chargeOutput()
	if done && t.last {
		_ = t.link.nc.CloseWrite()
	}
	return done
}

// finish ends the output with an alert. It returns true if all records were written.
func (t *tlsLayer) finish() (done bool) {
	t.last = true
	_ = t.conn.CloseWrite()
	done, err := t.flush()
	return done && err == nil
}

// forget drops the records.
func (t *tlsLayer) forget() {
	t.link.c.sh.buffers.put(t.out)
	t.out = nil
}
