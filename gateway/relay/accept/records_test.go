package accept

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// applicationRecord is the type of records with data.
const applicationRecord = 23

// TestRecords: the longest record is found however the bytes are split.
func TestRecords(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	for range 200 {
		var all []byte
		longest := 0
		for range rnd.IntN(20) {
			typ, n := byte(20+rnd.IntN(4)), rnd.IntN(300)
			longest = max(longest, n)
			all = append(binary.BigEndian.AppendUint16(append(all, typ, 3, 3), uint16(n)), make([]byte, n)...)
		}
		var r records
		for rest := all; len(rest) > 0; {
			n := 1 + rnd.IntN(min(len(rest), 1+rnd.IntN(400)))
			r.add(rest[:n])
			rest = rest[n:]
		}
		if r.longest != longest {
			t.Fatalf("the longest record has %d bytes, want %d", r.longest, longest)
		}
	}
}

// TestLongRecordsAreCharged: the memory that crypto/tls keeps for a long record is charged once.
func TestLongRecordsAreCharged(t *testing.T) {
	t.Parallel()
	account := &limitedAccount{left: 16 << 10}
	p := &Peer{}
	p.memory.Begin(account, 0)
	client, server := net.Pipe()
	defer client.Close()
	c := &handshakeConn{Transport: Transport{Conn: server}, done: true, peer: p}
	read := func(n int) error {
		record := append(binary.BigEndian.AppendUint16([]byte{applicationRecord, 3, 3}, uint16(n)), make([]byte, n)...)
		go func() { _, _ = client.Write(record) }()
		for left := len(record); left > 0; {
			m, err := c.Read(make([]byte, left))
			if err != nil {
				return err
			}
			left -= m
		}
		return nil
	}
	for _, n := range []int{100, recordFree, 8 << 10, 8 << 10, 100} {
		check.Must(t, read(n))
	}
	if used := 16<<10 - account.left; used != 8<<10 {
		t.Errorf("%d bytes are charged", used)
	}
	if err := read(16 << 10); err != ErrNoMemory {
		t.Errorf("a record without room: %v", err)
	}
}

// TestRecordsOfNoTLSAreNotCharged: a record header with a length that TLS does not permit is charged as the longest
// permitted record.
func TestRecordsOfNoTLSAreNotCharged(t *testing.T) {
	t.Parallel()
	account := &limitedAccount{left: 1 << 20}
	p := &Peer{}
	p.memory.Begin(account, 0)
	c := &handshakeConn{done: true, peer: p}
	c.records.add([]byte{applicationRecord, 3, 3, 0xff, 0xff})
	check.Must(t, c.chargeRecords())
	if used := 1<<20 - account.left; used != 2*(maxRecord-recordFree) {
		t.Errorf("%d bytes are charged", used)
	}
}

// limitedAccount is an Account with a fixed number of bytes.
type limitedAccount struct{ left int64 }

func (a *limitedAccount) Reserve(n int64) bool {
	if n > a.left {
		return false
	}
	a.left -= n
	return true
}

func (a *limitedAccount) Release(n int64) { a.left += n }
