package accept

import (
	"encoding/binary"
	"syscall"
)

// Input is the socket below a connection over TLS. Its user may wait for bytes without a buffer for them.
type Input interface {
	// Records returns the number of complete records of application data, or encrypted messages of a handshake, that
	// TLS has read.
	Records() int64
	// Await waits until the socket can be read, or its deadline. It may return early.
	Await()
}

// A record of TLS has a header of five bytes: its type, a version, and the length of the rest (RFC 8446 §5.1).
const (
	recordHeader      = 5
	applicationRecord = 23
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
			r.longest = max(r.longest, r.left)
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
	raw   syscall.RawConn
	ready func(fd uintptr) bool
	tried bool
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
}

func (s *socket) await() {
	s.tried = false
	_ = s.raw.Read(s.ready) // the reader gets the error too
}

// Records implements Input.
func (c *handshakeConn) Records() int64 { return c.records.whole }

// Await implements Input.
func (c *handshakeConn) Await() {
	if c.socket.raw == nil {
		c.socket.of(c.Conn)
	}
	if c.socket.raw != nil {
		c.socket.await()
	}
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
