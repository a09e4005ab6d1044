package gateway

import (
	"errors"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/lib/recovery"
)

// local is a gRPC server inside the process, as an upstream like any other.
type local struct {
	upstream *relay.Upstream
	server   *grpc.Server
	served   chan struct{} // closed when server has stopped
}

// serveLocal serves what is registered at a server.
func serveLocal(r *relay.Relay, name string, server *grpc.Server) *local {
	upstream, ln := r.NewLocalUpstream(name)
	l := &local{upstream: upstream, server: server, served: make(chan struct{})}
	go func() {
		defer close(l.served)
		_ = server.Serve(ln) // ends with Stop, and only so
	}()
	return l
}

// close is for after the relay has ended.
func (l *local) close() {
	l.server.Stop()
	<-l.served
}

// bytesServer makes a server all of whose methods serve answers, message by message as they are.
func bytesServer(serve grpc.StreamHandler) *grpc.Server {
	return grpc.NewServer(append(recovery.Options("services"), grpc.ForceServerCodec(untouched{}), grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage), grpc.UnknownServiceHandler(serve), grpc.WaitForHandlers(true))...)
}

// untouched is a codec for messages that are passed on as they are.
type untouched struct{}

func (untouched) Name() string { return "" } // the content type says no more than gRPC

func (untouched) Marshal(v any) ([]byte, error) {
	if b, ok := v.(*[]byte); ok {
		return *b, nil
	}
	return nil, errUntouched
}

func (untouched) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return errUntouched
	}
	*b = append([]byte(nil), data...)
	return nil
}

var errUntouched = errors.New("only bytes are passed on")
