package clienttest

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// stream bounds each operation of a stream, and not the stream as a whole.
type stream struct {
	grpc.ClientStream
	bound
	many bool // more than one message is expected
}

func (c *conn) newStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{bound: bound{c, method, cancel}, many: desc.ServerStreams}
	err := s.within("the connection", func() (err error) {
		s.ClientStream, err = open(ctx, desc, cc, method, opts...)
		return err
	})
	if err != nil {
		cancel()
		return nil, err
	}
	return s, nil
}

// Header waits for the header.
func (s *stream) Header() (header metadata.MD, err error) {
	err = s.within("the header", func() error {
		header, err = s.ClientStream.Header()
		return err
	})
	return header, err
}

// SendMsg waits for the window of the stream.
func (s *stream) SendMsg(m any) error {
	return s.within("the sending of a message", func() error { return s.ClientStream.SendMsg(m) })
}

// RecvMsg waits for a message or the status. The call ends with its status, or with its only message.
func (s *stream) RecvMsg(m any) error {
	err := s.within("a message", func() error { return s.ClientStream.RecvMsg(m) })
	if err != nil || !s.many {
		s.cancel()
	}
	return err
}
