package rawhttp2

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"golang.org/x/net/http2/hpack"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Conn is one end of a connection. It supports one reader and one writer at a time.
type Conn struct {
	net.Conn
	Timeout time.Duration // of one write or one frame read; New sets 30 s

	in  *bufio.Reader
	enc *hpack.Encoder
	buf bytes.Buffer // enc writes to it
	dec *hpack.Decoder
}

// New uses an open connection. It writes nothing.
func New(nc net.Conn) *Conn {
	c := &Conn{Conn: nc, Timeout: check.Patience, in: bufio.NewReaderSize(nc, 64<<10), dec: hpack.NewDecoder(4096, nil)}
	c.enc = hpack.NewEncoder(&c.buf)
	return c
}

// Dial connects over TCP. It writes nothing.
func Dial(addr string) (*Conn, error) {
	nc, err := net.DialTimeout("tcp", addr, check.Patience)
	if err != nil {
		return nil, err
	}
	return New(nc), nil
}

// Greet performs a client's handshake: it sends the preface and SETTINGS, reads the server's SETTINGS, and exchanges
// acknowledgements.
func (c *Conn) Greet(settings ...Setting) error {
	b := Settings(settings...).Append([]byte(Preface))
	if err := c.WriteBytes(b); err != nil {
		return err
	}
	return c.settle()
}

// Welcome is Greet for the server's end.
func (c *Conn) Welcome(settings ...Setting) error {
	if err := c.ReadPreface(); err != nil {
		return err
	}
	if err := c.Write(Settings(settings...)); err != nil {
		return err
	}
	return c.settle()
}

// settle reads the peer's SETTINGS and its acknowledgement of ours.
func (c *Conn) settle() error {
	for settled, acked := false, false; !settled || !acked; {
		f, err := c.Read()
		switch {
		case err != nil:
			return err
		case f.Type == TypeSettings && f.Has(Ack):
			acked = true
		case f.Type == TypeSettings:
			settled = true
			if err := c.Write(SettingsAck()); err != nil {
				return err
			}
		case f.Type == TypeGoAway:
			return fmt.Errorf("greeted with GOAWAY: %v", f)
		}
	}
	return nil
}

// ReadPreface reads the client preface.
func (c *Conn) ReadPreface() error {
	if err := c.SetReadDeadline(time.Now().Add(c.Timeout)); err != nil {
		return err
	}
	b := make([]byte, len(Preface))
	if _, err := io.ReadFull(c.in, b); err != nil {
		return err
	}
	if string(b) != Preface {
		return fmt.Errorf("preface is %q", b)
	}
	return nil
}

// Write writes frames in one write.
func (c *Conn) Write(frames ...Frame) error {
	var b []byte
	for _, f := range frames {
		b = f.Append(b)
	}
	return c.WriteBytes(b)
}

// WriteBytes writes bytes verbatim.
func (c *Conn) WriteBytes(b []byte) error {
	if err := c.SetWriteDeadline(time.Now().Add(c.Timeout)); err != nil {
		return err
	}
	_, err := c.Conn.Write(b)
	return err
}

// Read reads the next frame. The caller owns its payload.
func (c *Conn) Read() (Frame, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.Timeout)); err != nil {
		return Frame{}, err
	}
	var h [9]byte
	if _, err := io.ReadFull(c.in, h[:]); err != nil {
		return Frame{}, err
	}
	f := Frame{Type: h[3], Flags: h[4], Stream: binary.BigEndian.Uint32(h[5:]) & (1<<31 - 1)}
	f.Payload = make([]byte, int(h[0])<<16|int(h[1])<<8|int(h[2]))
	_, err := io.ReadFull(c.in, f.Payload)
	return f, err
}

// Block encodes header fields, given as alternating names and values. It changes the encoder's state: blocks
// must be written in the order of their creation.
func (c *Conn) Block(fields ...string) []byte {
	c.buf.Reset()
	for i := 0; i+1 < len(fields); i += 2 {
		// Writing to a bytes.Buffer does not fail.
		_ = c.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return bytes.Clone(c.buf.Bytes())
}

// Fields decodes a header block. Every block has to be decoded, in order.
func (c *Conn) Fields(block []byte) (map[string]string, error) {
	list, err := c.dec.DecodeFull(block)
	if err != nil {
		return nil, err
	}
	fields := make(map[string]string, len(list))
	for _, f := range list {
		fields[f.Name] = f.Value
	}
	return fields, nil
}
