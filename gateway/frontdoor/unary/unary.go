// Package unary has the memory of the calls that front doors make beside the libraries of their protocols.
package unary

import (
	"context"
	"io"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/gateway/relay"
)

// MaxBody is the maximum size in bytes of the body of such a request, and of the memory that a Call keeps for the next.
const MaxBody = 64 << 10

// maxFields is the maximum number of header fields that a Call keeps memory for.
const maxFields = 128

// Make makes a unary call for the caller of ctx. msg has relay.Headroom before the message.
type Make func(ctx context.Context, q *relay.Request, msg []byte, r *relay.Response)

// Call is a call, with memory that is reused after Clear.
type Call struct {
	Body     []byte // of the request, and later perhaps of the response
	Message  []byte // preceded by relay.Headroom
	Header   []relay.Field
	Request  relay.Request
	Response relay.Response
}

// Clear overwrites the data of the call.
func (c *Call) Clear() {
	clear(c.Body)
	clear(c.Message)
	clear(c.Header)
	c.Header, c.Request = c.Header[:0], relay.Request{}
	if cap(c.Header) > maxFields {
		c.Header = nil
	}
	c.Response.Reset(MaxBody)
	if cap(c.Body) > MaxBody {
		c.Body = nil
	}
	if cap(c.Message) > 2*MaxBody {
		c.Message = nil
	}
}

// Add adds a field to the call's metadata.
func (c *Call) Add(name, value string) {
	c.Header = append(c.Header, relay.Field{Name: name, Value: value})
}

// Read reads a body of n bytes. After an error, Body has what was read.
func (c *Call) Read(in io.Reader, n int) error {
	if cap(c.Body) < n {
		c.Body = make([]byte, n)
	}
	n, err := io.ReadFull(in, c.Body[:n])
	c.Body = c.Body[:n]
	return err
}

// ReadAll reads a body of at most n bytes, or its first n bytes. After an error, Body has what was read.
func (c *Call) ReadAll(in io.Reader, n int) error {
	if cap(c.Body) < n {
		c.Body = make([]byte, n)
	}
	for c.Body = c.Body[:0]; len(c.Body) < n; {
		m, err := in.Read(c.Body[len(c.Body):n])
		c.Body = c.Body[:len(c.Body)+m]
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Begin returns Message without content: the message is appended to it.
func (c *Call) Begin() []byte {
	var room [relay.Headroom]byte
	return append(c.Message[:0], room[:]...)
}

// AppendCall appends the call of a tool as a message of the capability protocol. Strings must be valid UTF-8.
func AppendCall[T []byte | string](msg []byte, tool T, args, config []byte, session T, capability string,
	thread T) []byte {
	msg = appendField(msg, 1, tool)
	msg = appendField(msg, 2, args)
	msg = appendField(msg, 3, config)
	msg = appendField(msg, 4, session)
	msg = appendField(msg, 5, capability)
	return appendField(msg, 6, thread)
}

// appendField appends a field of a message, unless it is empty.
func appendField[T []byte | string](msg []byte, number protowire.Number, value T) []byte {
	if len(value) == 0 {
		return msg
	}
	msg = protowire.AppendVarint(protowire.AppendTag(msg, number, protowire.BytesType), uint64(len(value)))
	return append(msg, value...)
}
