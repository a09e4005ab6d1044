package grpcproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	window     = 1 << 20 // bytes, of a stream and of a connection
	bufferSize = 64 << 10
)

// Proxy forwards every call to one backend.
type Proxy struct {
	server *grpc.Server
	conn   *grpc.ClientConn
}

// New returns a proxy to the backend at an address.
func New(backend string) (*Proxy, error) {
	conn, err := grpc.NewClient("passthrough:///"+backend,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(Codec{}), grpc.MaxCallRecvMsgSize(math.MaxInt32)),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
		grpc.WithReadBufferSize(bufferSize), grpc.WithWriteBufferSize(bufferSize))
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", backend, err)
	}
	p := &Proxy{conn: conn}
	p.server = grpc.NewServer(
		grpc.UnknownServiceHandler(p.handle), grpc.ForceServerCodecV2(Codec{}), grpc.MaxRecvMsgSize(math.MaxInt32),
		grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window),
		grpc.ReadBufferSize(bufferSize), grpc.WriteBufferSize(bufferSize))
	return p, nil
}

// Serve accepts connections until Close.
func (p *Proxy) Serve(ln net.Listener) error { return p.server.Serve(ln) }

// Close ends all calls and connections.
func (p *Proxy) Close() {
	p.server.Stop()
	_ = p.conn.Close()
}

func (p *Proxy) handle(_ any, in grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(in)
	if !ok {
		return status.Error(codes.Internal, "no method")
	}
	ctx, cancel := context.WithCancel(in.Context())
	defer cancel()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		ctx = metadata.NewOutgoingContext(ctx, md)
	}
	out, err := p.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method)
	if err != nil {
		return err
	}
	// This direction ends with the client's half-close, or with the context when the function returns.
	go func() {
		if move(out, in) != nil {
			cancel()
			return
		}
		_ = out.CloseSend()
	}()
	header, err := out.Header()
	if err != nil {
		return err
	}
	if err := in.SendHeader(header); err != nil {
		return err
	}
	err = move(in, out)
	in.SetTrailer(out.Trailer())
	return err
}

// stream is the common part of client and server streams.
type stream interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

func move(to, from stream) error {
	for {
		var m mem.BufferSlice
		if err := from.RecvMsg(&m); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if err := to.SendMsg(&m); err != nil {
			return err
		}
	}
}

// Codec passes messages on in the buffers in which they were received.
type Codec struct{}

// Name returns the name of the codec that encoded the bytes.
func (Codec) Name() string { return "proto" }

// Marshal returns the buffers of a *mem.BufferSlice.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	m, ok := v.(*mem.BufferSlice)
	if !ok {
		return nil, fmt.Errorf("raw codec: %T", v)
	}
	return *m, nil // grpc-go frees it after sending
}

// Unmarshal fills a *mem.BufferSlice, which the receiver must free.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	m, ok := v.(*mem.BufferSlice)
	if !ok {
		return fmt.Errorf("raw codec: %T", v)
	}
	data.Ref()
	*m = data
	return nil
}
