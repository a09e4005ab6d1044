package accept

import (
	"encoding/binary"
	"net"
	"syscall"
)

// Input is the socket below a connection over TLS. Its user may wait for bytes without a buffer for them.
type Input interface {
	// Records returns the number of complete records of application data, or encrypted messages of a handshake, that
	// TLS has read.
	Records() int64
	// Await waits until the socket can be read, or its deadline. It may return early.
	Await()
	// NoWait makes reads return ErrNoInput instead of waiting, where that is possible. A read after Await may wait for
	// the rest of one record.
	NoWait()
}

// ErrNoInput is the error of a read without input, see Input.NoWait. TLS has then taken all complete records. Its reads
// continue after it, as after a deadline.
var ErrNoInput net.Error = noInput{}

type noInput struct{}

func (noInput) Error() string   { return "the socket has no input" }
func (noInput) Timeout() bool   { return true }
func (noInput) Temporary() bool { return true }

// A record of TLS has a header of five bytes: its type, a version, and the length of the rest (RFC 8446 §5.1).
const (
	recordHeader      = 5
	applicationRecord = 23
	// maxRecord is the length of the longest record of TLS 1.2 or 1.3. TLS ends a connection with a longer one.
	maxRecord = 16<<10 + 2048
)

// records follows the records in the bytes that TLS reads.
type records struct {
	head    [recordHeader]byte
	have    int   // bytes of head
	left    int   // bytes of the record
	longest int   // bytes of the longest record
	whole   int64 // number of complete records of application data
}

func (r *records) add(p []byte) {
	for len(p) > 0 {
		if r.have < recordHeader {
			n := copy(r.head[r.have:], p)
			r.have += n
			p = p[n:]
			if r.have < recordHeader {
				return
			}
			r.left = int(binary.BigEndian.Uint16(r.head[3:]))
			r.longest = max(r.longest, min(r.left, maxRecord))
		}
		n := min(r.left, len(p))
		r.left -= n
		p = p[n:]
		if r.left > 0 {
			return
		}
		r.have = 0
		if r.head[0] == applicationRecord {
			r.whole++
		}
	}
}

// socket waits until a socket can be read. The zero value does not wait.
type socket struct {
	raw    syscall.RawConn
	ready  func(fd uintptr) bool
	tried  bool
	peek   func(fd uintptr)
	has    bool  // there is input, as far as is known
	noWait bool  // see Input.NoWait
	await  int64 // number of complete records at the last Await; -1: none
}

// of sets the connection, unless it is no socket.
func (s *socket) of(nc any) {
	c, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	s.raw = raw
	s.ready = func(fd uintptr) bool {
		if s.tried {
			return true
		}
		s.tried = true
		return hasInput(int(fd))
	}
	s.peek = func(fd uintptr) { s.has = hasInput(int(fd)) }
}

// mayRead reports whether a read has input, or may wait.
func (c *handshakeConn) mayRead() bool {
	s := &c.socket
	if !s.noWait {
		return true
	}
	partial := c.records.have > 0 && c.records.whole == s.await
	if !s.has && !partial && s.raw.Control(s.peek) != nil {
		return true // the reader gets the error
	}
	has := s.has
	s.has = false
	return has || partial
}

// Records implements Input.
func (c *handshakeConn) Records() int64 { return c.records.whole }

// Await implements Input, after NoWait.
func (c *handshakeConn) Await() {
	if s := &c.socket; s.raw != nil {
		s.tried = false
		_ = s.raw.Read(s.ready) // the reader gets the error too
		s.has, s.await = true, c.records.whole
	}
}

// NoWait implements Input.
func (c *handshakeConn) NoWait() {
	c.socket.of(c.Conn)
	c.socket.noWait, c.socket.await = c.socket.raw != nil, -1
}

// chargeRecords charges the memory that crypto/tls keeps for the longest record, beyond recordFree.
func (c *handshakeConn) chargeRecords() error {
	if more := recordCopies*int64(c.records.longest-recordFree) - c.kept; more > 0 {
		if !c.peer.memory.add(more) {
			return ErrNoMemory
		}
		c.kept += more
	}
	return nil
}
