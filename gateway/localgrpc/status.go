package localgrpc

import (
	"errors"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/relay"
)

// statusProto returns a status of the relay with its details, as far as they can be read and have the same code.
func statusProto(st relay.Status) *spb.Status {
	out := &spb.Status{}
	if len(st.Details) > 0 && proto.Unmarshal(st.Details, out) == nil && out.GetCode() == codeOf(st.Code) {
		return out
	}
	return &spb.Status{Code: codeOf(st.Code), Message: st.Message}
}

// notStarted is the error of a call that provably did not start.
type notStarted struct{ cause error }

// Error implements error.
func (e *notStarted) Error() string { return "the call was not sent: " + e.cause.Error() }

// Unwrap returns why.
func (e *notStarted) Unwrap() error { return e.cause }

// NotStarted is the error of a handler that stands for a backend, see relay.UpstreamConfig, where the call provably did
// not start there. cause is for Handler.Unsent, and not for the caller.
func NotStarted(cause error) error { return &notStarted{cause} }

// StatusOf returns an error of a handler as the relay sends it.
func StatusOf(err error) relay.Status {
	var unsent *notStarted
	if errors.As(err, &unsent) {
		return relay.Status{Code: uint32(codes.Unavailable), Unsent: unsent.cause}
	}
	st, ok := status.FromError(err)
	if !ok {
		st = status.FromContextError(err)
	}
	out := relay.Status{Code: uint32(st.Code()), Message: st.Message()}
	if p := st.Proto(); len(p.GetDetails()) > 0 {
		if details, err := proto.Marshal(p); err == nil {
			out.Details = details
		}
	}
	return out
}
