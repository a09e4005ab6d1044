package relay_test

import (
	"bytes"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// heldConn buffers writes until send.
type heldConn struct {
	net.Conn
	held bytes.Buffer
}

func (c *heldConn) Write(p []byte) (int, error) { return c.held.Write(p) }

// send writes the buffered bytes in random pieces.
func (c *heldConn) send(rnd *rand.Rand) error {
	for c.held.Len() > 0 {
		if _, err := c.Conn.Write(c.held.Next(1 + rnd.IntN(c.held.Len()))); err != nil {
			return err
		}
	}
	return nil
}

// TestRecordsOfTLS: the relay answers the last frame of a client, however frames are divided into records, and records
// into segments, with both versions of TLS. A read without a buffer waits only if there is nothing to read.
func TestRecordsOfTLS(t *testing.T) {
	t.Parallel()
	serverTLS, clientTLS := tlsConfigs(t)
	_, addr := serveRelay(t, relay.Config{TLS: serverTLS}, &forwarder{}, site())
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		rnd := rand.New(rand.NewPCG(uint64(version), 3)) //nolint:gosec // a test
		for range 20 {
			nc, err := net.Dial("tcp", addr)
			check.Must(t, err)
			cfg := clientTLS.Clone()
			cfg.NextProtos, cfg.MaxVersion, cfg.DynamicRecordSizingDisabled = []string{"h2"}, version, true
			held := &heldConn{Conn: nc}
			tc := tls.Client(&flushing{held, rnd}, cfg)
			check.Must(t, tc.Handshake())
			check.Must(t, nc.SetDeadline(time.Now().Add(check.Patience)))
			exchangeRecords(t, tc, held, rnd)
			check.Must(t, nc.Close())
		}
	}
}

// flushing sends all writes before a read, as a handshake requires.
type flushing struct {
	*heldConn
	rnd *rand.Rand
}

func (c *flushing) Read(p []byte) (int, error) {
	if err := c.send(c.rnd); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// exchangeRecords sends frames in records of all sizes, and waits for the response to the last one.
func exchangeRecords(t *testing.T, tc *tls.Conn, held *heldConn, rnd *rand.Rand) {
	t.Helper()
	c := rawhttp2.New(tc)
	out := append([]byte(rawhttp2.Preface), rawhttp2.Settings().Append(nil)...)
	for round := range 15 {
		for range rnd.IntN(4) {
			size := []int{0, 100, 4087 - 9, 4087, 8192, 16384}[rnd.IntN(6)]
			out = rawhttp2.Frame{Type: 0xfe, Payload: make([]byte, size)}.Append(out)
		}
		out = rawhttp2.Settings().Append(out)
		for len(out) > 0 {
			n := min(len(out), []int{1, 9, 4087, 2 * 4087, 16384, len(out)}[rnd.IntN(6)])
			_, err := tc.Write(out[:n])
			check.Must(t, err)
			out = out[n:]
		}
		check.Must(t, held.send(rnd))
		acks := 1
		if round == 0 {
			acks = 2
		}
		for range acks {
			_, err := c.Wait(func(f rawhttp2.Frame) bool {
				return f.Type == rawhttp2.TypeSettings && f.Has(rawhttp2.Ack)
			})
			check.Must(t, err)
		}
	}
}
