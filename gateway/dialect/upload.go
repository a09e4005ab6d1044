package dialect

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/lib/recovery"
)

// upload forwards one upload from in to the call that open makes. translate returns a chunk in the other dialect, and
// its bytes of the file; reply translates the response, given the number of forwarded bytes of the file.
func upload[InChunk, InReply, OutChunk, OutReply any](
	in grpc.ClientStreamingServer[InChunk, InReply],
	refuse Refuse,
	open func(context.Context, ...grpc.CallOption) (grpc.ClientStreamingClient[OutChunk, OutReply], error),
	translate func(*InChunk) (*OutChunk, int),
	reply func(*OutReply, uint64) *InReply,
) error {
	ctx, opts := Outgoing(in.Context())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, err := open(ctx, append(opts, grpc.MaxCallRecvMsgSize(maxMessage))...)
	if err != nil {
		return err
	}

	// The response may arrive before the client has sent everything, so the chunks are sent on a separate goroutine.
	// It ends with the call: gRPC ends in.Recv when this function returns.
	var sent atomic.Uint64
	broken := make(chan error, 1) // why the client's side ended the upload
	go func() {
		if err := recovery.Do("dialect upload", func() error {
			return pump(in, out, refuse, translate, &sent)
		}); err != nil {
			broken <- err
			cancel()
		}
	}()

	answer := new(OutReply)
	err = out.RecvMsg(answer)
	in.SetTrailer(Custom(out.Trailer()))
	if err != nil {
		select {
		case err = <-broken: // the backend's side only saw the cancellation
			return err
		default:
		}
		header, _ := out.Header() // nil if that fails
		if refusal := unread(err, header); refusal != nil {
			err = refuse(in.Context(), refusal)
		}
		return err
	}
	if h, err := out.Header(); err == nil {
		if err := in.SetHeader(Custom(h)); err != nil {
			return err
		}
	}
	return in.SendAndClose(reply(answer, sent.Load()))
}

// pump forwards the client's chunks until either side ends. Its error is that of the client; RecvMsg returns the
// backend's error.
func pump[InChunk, InReply, OutChunk, OutReply any](
	in grpc.ClientStreamingServer[InChunk, InReply],
	out grpc.ClientStreamingClient[OutChunk, OutReply],
	refuse Refuse,
	translate func(*InChunk) (*OutChunk, int),
	sent *atomic.Uint64,
) error {
	for {
		var c chunk[InChunk]
		err := in.RecvMsg(&c)
		if errors.Is(err, io.EOF) {
			return out.CloseSend()
		}
		if err == nil && c.malformed {
			err = refuse(in.Context(), refusedChunk)
		}
		if err != nil {
			return err
		}
		o, n := translate(c.message)
		sent.Add(uint64(n))
		if err := out.Send(o); err != nil {
			return nil // the backend has ended; RecvMsg has its status
		}
	}
}
