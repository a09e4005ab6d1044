package relay

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay/accept"
	"github.com/capgate/capgate/internal/testkit/certtest"
	"github.com/capgate/capgate/internal/testkit/check"
)

// tlsPair is a connection over TLS: the relay's link of it, which no goroutine reads, and the client.
type tlsPair struct {
	sh     *shard
	link   *rawLink
	client *tls.Conn
	below  *accept.Transport // of the client
	socket *net.TCPConn      // of the client
}

func newTLSPair(t *testing.T) *tlsPair {
	t.Helper()
	ln := check.Listen(t)
	nc, err := net.Dial("tcp", ln.Addr().String())
	check.Must(t, err)
	accepted, err := ln.Accept()
	check.Must(t, err)
	check.Must(t, ln.Close())
	authority := certtest.New(t)
	p := &tlsPair{sh: bareRelay(t, Config{}, nil).shards[0], below: &accept.Transport{Conn: nc},
		socket: nc.(*net.TCPConn)}
	check.Cleanup(t, func() { _ = nc.Close() })
	p.client = tls.Client(p.below, &tls.Config{RootCAs: authority.Pool, ServerName: "127.0.0.1",
		DynamicRecordSizingDisabled: true})
	server := tls.Server(&accept.Transport{Conn: accepted},
		&tls.Config{Certificates: []tls.Certificate{authority.Server(t)}})
	done := make(chan error, 1)
	go func() { done <- server.Handshake() }()
	check.Must(t, p.client.Handshake())
	check.Must(t, check.Received(t, done, "the end of the handshake"))
	if p.link, err = newRawLink(server); err != nil || p.link == nil {
		t.Fatalf("the link is %v, %v", p.link, err)
	}
	check.Cleanup(t, func() { _ = p.link.nc.Close() })
	p.sh.mu.Lock() // without a turn, which would write
	defer p.sh.mu.Unlock()
	p.link.c = newConn(p.sh, nil, p.link, nil)
	p.link.c.out, p.link.c.dirty, p.sh.dirty = output{}, false, nil
	return p
}

// turn calls f with the shard locked, and writes the output.
func (p *tlsPair) turn(f func(c *conn)) {
	p.sh.enter()
	defer p.sh.leave()
	p.sh.limitInput()
	f(p.link.c)
}

// packets replaces the socket of the link by one that preserves the boundaries of writes. The client reads from it.
func (p *tlsPair) packets(t *testing.T) *packetReader {
	t.Helper()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET, 0)
	check.Must(t, err)
	p.link.fd = pair[0]
	r := &packetReader{fd: pair[1]}
	check.Cleanup(t, func() { _, _ = syscall.Close(pair[0]), syscall.Close(pair[1]) })
	p.below.TakeOver(r)
	return r
}

// packetReader counts the packets of a socket.
type packetReader struct {
	fd    int
	count int
	rest  []byte
}

func (r *packetReader) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

func (r *packetReader) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		buf := make([]byte, 256<<10)
		n, err := syscall.Read(r.fd, buf)
		if err != nil {
			return 0, err
		}
		r.count++
		r.rest = buf[:n]
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// TestRecordsAreWrittenTogether: the output of a turn over TLS is written in pieces of tlsOutput, whatever the size of
// the records and of the output's pieces, from the beginning of a connection.
func TestRecordsAreWrittenTogether(t *testing.T) {
	t.Parallel()
	p := newTLSPair(t)
	r := p.packets(t)
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	for _, test := range []struct{ bytes, pieces, writes int }{
		{100, 1, 1}, {12 << 10, 1, 1}, {12 << 10, 5, 1}, {31 << 10, 7, 1}, {48 << 10, 30, 1}, {100 << 10, 1, 3},
		{100 << 10, 9, 3}, {10 << 10, 1, 1}, {16 << 10, 2, 1}, {16<<10 + 1, 1, 1}, {31 << 10, 1, 1},
	} {
		want := make([]byte, test.bytes)
		for i := range want {
			want[i] = byte(rnd.Uint32())
		}
		var pieces [][]byte
		for i := range test.pieces {
			pieces = append(pieces, want[i*test.bytes/test.pieces:(i+1)*test.bytes/test.pieces])
		}
		before := r.count
		p.turn(func(*conn) {
			if n, err := p.link.write(pieces); n != test.bytes || err != nil {
				t.Errorf("%+v: %d bytes were accepted, %v", test, n, err)
			}
		})
		got := make([]byte, test.bytes)
		if _, err := io.ReadFull(p.client, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%+v: other bytes arrived, %v", test, err)
		}
		if n := r.count - before; n != test.writes {
			t.Errorf("%+v: %d writes", test, n)
		}
	}
}

// TestRecordsAreReadTogether: a turn reads all records that the socket has, also the last ones before the end of the
// client's output.
func TestRecordsAreReadTogether(t *testing.T) {
	t.Parallel()
	p := newTLSPair(t)
	buf := make([]byte, 64<<10)
	p.turn(func(*conn) {
		if _, err := p.link.receive(buf); err != syscall.EAGAIN {
			t.Errorf("without input: %v", err)
		}
	})
	for _, n := range []int{1, 100, 50 << 10, 64 << 10} {
		_, err := p.client.Write(make([]byte, n))
		check.Must(t, err)
		p.turn(func(*conn) {
			p.link.tls.drained, p.sh.until = false, 0
			if got, err := p.link.receive(buf); got != n || err != nil {
				t.Errorf("%d of %d bytes, %v", got, n, err)
			}
		})
	}
	_, err := p.client.Write(make([]byte, 20<<10))
	check.Must(t, err)
	check.Must(t, p.client.CloseWrite())
	p.turn(func(*conn) {
		p.link.tls.drained, p.sh.until = false, 0
		n, err := p.link.receive(buf)
		_, end := p.link.receive(buf)
		if n != 20<<10 || err != nil || end != io.EOF {
			t.Errorf("%d bytes, %v; then %v", n, err, end)
		}
	})
}

// TestSmallRecordsEndWithTheTurn: a client that sends the smallest records does not hold up others: the turn ends in
// time, and the run queue continues.
func TestSmallRecordsEndWithTheTurn(t *testing.T) {
	t.Parallel()
	p := newTLSPair(t)
	text := []byte(accept.Preface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	for range 100 {
		text = append(text, "\x00\x00\x08\x06\x00\x00\x00\x00\x0012345678"...)
	}
	for i := range text {
		_, err := p.client.Write(text[i : i+1])
		check.Must(t, err)
	}
	check.Holds(t, "a turn that does not read all", func() (ended bool) {
		p.turn(func(c *conn) {
			p.link.come()
			if ended = p.link.tls.more; c.closed || ended && !p.link.queued {
				t.Fatalf("closed %v, queued %v", c.closed, p.link.queued)
			}
		})
		return ended
	})
}

// TestInputBeforeAFailureOfTheOutput: what a client has sent before it closed its socket is read, although the output
// that waits for it fails.
func TestInputBeforeAFailureOfTheOutput(t *testing.T) {
	t.Parallel()
	p := newTLSPair(t)
	const size = 3000
	_, err := p.client.Write(make([]byte, size))
	check.Must(t, err)
	check.Must(t, p.socket.SetLinger(0)) // a reset
	check.Must(t, p.socket.Close())
	p.turn(func(*conn) {
		p.link.tls.out, p.sh.until = append(p.sh.buffers.get(size), make([]byte, size)...), 0
		buf := make([]byte, 2*size)
		if n, err := p.link.receive(buf); n != size || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
		if n, err := p.link.receive(buf); n != 0 || err == nil || err == syscall.EAGAIN {
			t.Errorf("then %d bytes, %v", n, err)
		}
	})
}

// TestTheEndOfHalfARecordIsNoticed: the socket of a client that ends within a record is checked again, because the end
// may have arrived with the bytes.
func TestTheEndOfHalfARecordIsNoticed(t *testing.T) {
	t.Parallel()
	p := newTLSPair(t)
	_, err := p.socket.Write([]byte("\x17\x03\x03\x00\x20half"))
	check.Must(t, err)
	p.turn(func(*conn) { p.link.come() })
	if !p.link.suspect || p.link.c.closed {
		t.Fatalf("suspect %v, closed %v", p.link.suspect, p.link.c.closed)
	}
	check.Must(t, p.socket.Close())
	check.Holds(t, "the end of the connection", func() (closed bool) {
		p.turn(func(c *conn) {
			p.link.come()
			closed = c.closed
		})
		return closed
	})
}

// TestTLSWaitsForTheSocket: a client that reads slowly gets all output, and then the end: whether data waits for the
// socket, or only the records of data that TLS has accepted. Records that wait are charged.
func TestTLSWaitsForTheSocket(t *testing.T) {
	t.Parallel()
	for name, most := range map[string]int{"data": 60 << 10, "records": 10 << 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newTLSPair(t)
			check.Must(t, p.link.nc.(*net.TCPConn).SetWriteBuffer(32<<10))
			check.Must(t, p.socket.SetReadBuffer(32<<10))
			rnd := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // a test
			var want []byte
			waits := 0
			for name == "data" && len(want) < 700<<10 || name == "records" && waits == 0 {
				piece := make([]byte, 1+rnd.IntN(most))
				for i := range piece {
					piece[i] = byte(rnd.Uint32())
				}
				want = append(want, piece...)
				p.turn(func(c *conn) { c.write(append(c.space(len(piece)), piece...)) })
				p.turn(func(c *conn) {
					waits = p.link.holds()
					if waits > tlsBacklog || c.charged < int64(waits-accept.FreeBytes) ||
						c.blocked != (c.out.size > 0) {
						t.Errorf("%d bytes wait, %d are charged, blocked %v", waits, c.charged, c.blocked)
					}
				})
			}
			p.turn(func(c *conn) {
				if waits == 0 || c.blocked != (name == "data") {
					t.Errorf("%d bytes wait, blocked %v", waits, c.blocked)
				}
				c.end(NoFailure, ErrGoAway)
				c.since += int64(time.Hour) // of lingerTime
			})
			check.Must(t, p.client.SetDeadline(time.Now().Add(check.Patience)))
			got, err := io.ReadAll(p.client) // without the alert, its error would be that of an unexpected end
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d of %d bytes arrived, %v", len(got), len(want), err)
			}
		})
	}
}

// TestUnreadResponsesOfTLSAreBounded: the records with which TLS responds to a client wait for the socket up to a
// limit, and are charged.
func TestUnreadResponsesOfTLSAreBounded(t *testing.T) {
	t.Parallel()
	p := newTLSPair(t)
	check.Must(t, p.link.nc.(*net.TCPConn).SetWriteBuffer(8<<10))
	check.Must(t, p.socket.SetReadBuffer(8<<10))
	p.turn(func(c *conn) {
		var err error
		for n := 0; err == nil; n += 1 << 10 {
			if _, err = p.link.tls.Write(make([]byte, 1<<10)); n > tlsBacklog {
				t.Fatalf("%d bytes wait, %v", n, err)
			}
		}
		if p.link.holds() < tlsOutput || !errors.Is(err, errNotReading) {
			t.Errorf("%d bytes wait, %v", p.link.holds(), err)
		}
		_, err = p.link.receive(make([]byte, 10)) // writes what the socket accepts
		if n := p.link.holds(); n <= accept.FreeBytes || c.charged != int64(n-accept.FreeBytes) {
			t.Errorf("%d bytes wait, %d are charged, %v", n, c.charged, err)
		}
		c.lost(os.ErrClosed)
		if n := p.link.holds(); n != 0 {
			t.Errorf("%d bytes wait after the end", n)
		}
	})
}
