package rawhttp2

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
)

// Wait reads until a frame matches, and returns it. Meanwhile it responds to PINGs and SETTINGS, decodes header
// blocks and drops other frames.
func (c *Conn) Wait(wanted func(Frame) bool) (Frame, error) {
	for {
		f, err := c.Read()
		if err != nil {
			return Frame{}, err
		}
		if wanted(f) {
			return f, nil
		}
		if err := c.attend(f); err != nil {
			return Frame{}, err
		}
	}
}

// attend responds to a frame that the test does not wait for.
func (c *Conn) attend(f Frame) error {
	switch {
	case f.Type == TypePing && !f.Has(Ack):
		return c.Write(Pong(f))
	case f.Type == TypeSettings && !f.Has(Ack):
		return c.Write(SettingsAck())
	case f.Type == TypeHeaders:
		_, err := c.Fields(f.Payload)
		return err
	}
	return nil
}

// Sync waits until the peer has processed everything written before: it sends a PING and waits for the
// acknowledgement.
func (c *Conn) Sync() error {
	const data = 0x73796e63
	if err := c.Write(Ping(data)); err != nil {
		return err
	}
	_, err := c.Wait(func(f Frame) bool {
		return f.Type == TypePing && f.Has(Ack) && string(f.Payload) == string(Ping(data).Payload)
	})
	return err
}

// WaitReset returns the code with which the peer resets a stream. The end of the connection is an error.
func (c *Conn) WaitReset(stream uint32) (uint32, error) {
	f, err := c.Wait(func(f Frame) bool {
		return f.Type == TypeReset && f.Stream == stream || f.Type == TypeGoAway && f.Code() != NoError
	})
	if err == nil && f.Type == TypeGoAway {
		err = fmt.Errorf("connection ended instead: %v", f)
	}
	return f.Code(), err
}

// WaitGoAway returns the code of the peer's GOAWAY and waits until the peer has closed the connection. The
// end without a GOAWAY is an error.
func (c *Conn) WaitGoAway() (uint32, error) {
	f, err := c.Wait(func(f Frame) bool { return f.Type == TypeGoAway })
	if err != nil {
		return 0, err
	}
	return f.Code(), c.WaitClosed()
}

// WaitClosed reads until the peer has closed the connection.
func (c *Conn) WaitClosed() error {
	for {
		f, err := c.Read()
		if Closed(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := c.attend(f); err != nil && !Closed(err) {
			return err
		}
	}
}

// Drain reads until the peer has closed the connection, without responses.
func (c *Conn) Drain() error {
	for {
		if _, err := c.Read(); Closed(err) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// Closed reports whether an error means that the peer has closed the connection.
func Closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Response is the response on a stream.
type Response struct {
	Header  map[string]string
	Trailer map[string]string
	Body    []byte
	Reset   bool
	Code    uint32 // of the reset
}

// Status returns the gRPC status of a response, "" without one.
func (r *Response) Status() string {
	if s, ok := r.Trailer["grpc-status"]; ok {
		return s
	}
	return r.Header["grpc-status"]
}

// String is short, for the output of tests.
func (r *Response) String() string {
	if r.Reset {
		return fmt.Sprintf("reset with error %d", r.Code)
	}
	return strings.TrimSpace(fmt.Sprintf("%s status %s %s %s, %d bytes", r.Header[":status"], r.Status(),
		r.Header["grpc-message"], r.Trailer["grpc-message"], len(r.Body)))
}

// WaitResponse reads a stream's response to its end. It does not replenish the window.
func (c *Conn) WaitResponse(stream uint32) (*Response, error) {
	r := &Response{}
	for {
		f, err := c.Wait(func(f Frame) bool {
			return f.Stream == stream && f.Type != TypeWindowUpdate || f.Type == TypeGoAway && f.Code() != NoError
		})
		if err != nil {
			return r, err
		}
		switch f.Type {
		case TypeGoAway:
			return r, fmt.Errorf("connection ended instead: %v", f)
		case TypeReset:
			r.Reset, r.Code = true, f.Code()
			return r, nil
		case TypeData:
			r.Body = append(r.Body, f.Payload...)
		case TypeHeaders:
			fields, err := c.Fields(f.Payload)
			if err != nil {
				return r, err
			}
			if r.Header == nil {
				r.Header = fields
			} else {
				r.Trailer = fields
			}
		}
		if f.Has(EndStream) {
			return r, nil
		}
	}
}
