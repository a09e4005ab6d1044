package accept

import "encoding/binary"

// A record of TLS has a header of five bytes: its type, a version, and the length of the rest (RFC 8446 §5.1).
const (
	recordHeader = 5
	// maxRecord is the length of the longest record of TLS 1.2 or 1.3. TLS ends a connection with a longer one.
	maxRecord = 16<<10 + 2048
)

// records follows the records in the bytes that TLS reads.
type records struct {
	head    [recordHeader]byte
	have    int // bytes of head
	left    int // bytes of the record
	longest int // bytes of the longest record
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
