package accept

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"testing"

	"github.com/capgate/capgate/internal/testkit/check"
)

// TestRecords: records are counted correctly however their bytes are split.
func TestRecords(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	for range 200 {
		var all []byte
		var want int64
		longest := 0
		for range rnd.IntN(20) {
			typ, n := byte(20+rnd.IntN(4)), rnd.IntN(300)
			if typ == applicationRecord {
				want++
			}
			longest = max(longest, n)
			all = append(binary.BigEndian.AppendUint16(append(all, typ, 3, 3), uint16(n)), make([]byte, n)...)
		}
		var r records
		for rest := all; len(rest) > 0; {
			n := 1 + rnd.IntN(min(len(rest), 1+rnd.IntN(400)))
			r.add(rest[:n])
			rest = rest[n:]
		}
		if r.whole != want || r.longest != longest {
			t.Fatalf("%d records, the longest of %d; want %d, %d", r.whole, r.longest, want, longest)
		}
		if r.add([]byte{applicationRecord, 3, 3, 0, 2, 'x'}); r.whole != want {
			t.Fatal("a record counts before its end")
		}
		if r.add([]byte("y")); r.whole != want+1 {
			t.Fatal("a record does not count at its end")
		}
	}
}

// connection returns both ends of a TCP connection.
func connection(t *testing.T) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check.Must(t, err)
	defer ln.Close()
	client, err = net.Dial("tcp", ln.Addr().String())
	check.Must(t, err)
	t.Cleanup(func() { _ = client.Close() })
	server, err = ln.Accept()
	check.Must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	return client, server
}

// TestAwait: a socket with unread bytes is ready at once. A socket without any is ready when bytes arrive.
func TestAwait(t *testing.T) {
	t.Parallel()
	client, server := connection(t)
	c := &handshakeConn{Gatherer: Gatherer{Conn: server}}
	c.NoWait()
	found := make(chan bool, 2)
	ready := c.socket.ready
	c.socket.ready = func(fd uintptr) bool {
		ok := ready(fd)
		found <- ok
		return ok
	}
	await := func(want bool) {
		if ok := check.Received(t, found, "a look at the socket"); ok != want {
			t.Errorf("the socket is ready: %v, want %v", ok, want)
		}
	}
	for range 3 {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.Await()
		}()
		await(false)
		_, err := client.Write([]byte("ab"))
		check.Must(t, err)
		await(true)
		check.Received(t, ended, "the socket to be ready")
		var b [1]byte
		_, err = server.Read(b[:])
		check.Must(t, err)
		c.Await() // one byte is still unread
		await(true)
		_, err = server.Read(b[:])
		check.Must(t, err)
	}
	check.Must(t, client.Close())
	c.Await()
	await(true)
	c = &handshakeConn{Gatherer: Gatherer{Conn: struct{ net.Conn }{server}}} // no socket
	c.NoWait()
	c.Await()
}

// TestNoWait: a read returns ErrNoInput instead of waiting, but waits for the rest of a record after Await.
func TestNoWait(t *testing.T) {
	t.Parallel()
	client, server := connection(t)
	c := &handshakeConn{Gatherer: Gatherer{Conn: server}, done: true, peer: &Peer{}}
	c.NoWait()
	buf := make([]byte, 100)
	read := func(want int, wantErr error) {
		t.Helper()
		if n, err := c.Read(buf); n != want || err != wantErr {
			t.Errorf("%d bytes, %v; want %d, %v", n, err, want, wantErr)
		}
	}
	write := func(text string) {
		_, err := client.Write([]byte(text))
		check.Must(t, err)
	}
	read(0, ErrNoInput)
	const half, rest = "\x17\x03\x03\x00\x02a", "b"
	for range 3 {
		write(half)
		c.Await()
		read(len(half), nil)
		waiting := make(chan struct{})
		go func() {
			defer close(waiting)
			read(len(rest), nil)
		}()
		write(rest)
		check.Received(t, waiting, "the rest of the record")
		read(0, ErrNoInput)
	}
	write(half)
	c.Await()
	check.Must(t, client.Close())
	read(len(half), nil)
	read(0, io.EOF)
}

// TestLongRecordsAreCharged: the memory that crypto/tls keeps for a long record is charged once.
func TestLongRecordsAreCharged(t *testing.T) {
	t.Parallel()
	account := &limitedAccount{left: 16 << 10}
	p := &Peer{}
	p.memory.Begin(account, 0)
	client, server := net.Pipe()
	defer client.Close()
	c := &handshakeConn{Gatherer: Gatherer{Conn: server}, done: true, peer: p}
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
