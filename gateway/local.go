package gateway

import (
	"errors"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/gateway/localgrpc"
)

// bytesServer makes a server all of whose methods serve answers, message by message as they are.
func bytesServer(serve grpc.StreamHandler) *localgrpc.Server {
	return &localgrpc.Server{Name: "services", Unknown: serve, AsBytes: true, MaxMessage: maxMessage}
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
