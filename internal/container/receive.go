package container

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"
)

// maxChunks and maxStreamed bound the memory for a stream.
const (
	maxChunks   = 100_000
	maxStreamed = 256 << 20 // bytes
)

// receive sends one message and collects the responses until the stream ends.
func receive[T any, P interface {
	*T
	proto.Message
}](ctx context.Context, c Client, method string, request proto.Message) ([]*T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Begin(ctx, method)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) {
		return nil, err // after io.EOF RecvMsg returns the status
	}
	if err := stream.CloseSend(); err != nil {
		return nil, err
	}
	var all []*T
	for size := 0; ; {
		chunk := P(new(T))
		switch err := stream.RecvMsg(chunk); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return all, err
		}
		size += proto.Size(chunk)
		if all = append(all, chunk); len(all) > maxChunks || size > maxStreamed {
			return all, fmt.Errorf("the stream does not end within %d chunks and %d bytes", maxChunks, maxStreamed)
		}
	}
}
