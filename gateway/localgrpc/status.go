package localgrpc

import (
	"context"
	"errors"
	"io"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/relay"
	gatewaystatus "github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// statusProto converts a status of the relay, with its details if they are valid and have the same code.
func statusProto(st relay.Status) *spb.Status {
	out := &spb.Status{}
	if len(st.Details) > 0 && proto.Unmarshal(st.Details, out) == nil && out.GetCode() == codeOf(st.Code) {
		return out
	}
	return &spb.Status{Code: codeOf(st.Code), Message: st.Message}
}

// plain returns the error to send for a handler's error without a status.
func plain(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return gatewaystatus.ContextError(err, call.Sent)
	case errors.Is(err, io.ErrUnexpectedEOF): // an error of the relay about a request
		return undecodable.ofRequest()
	}
	return gatewaystatus.Error(failedHandler, call.Answered)
}

var failedHandler = &call.Refusal{Kind: call.Internal, Reason: "INTERNAL",
	Message: "the gateway failed to serve the call"}

// received is the error of a call that ended with a status of the relay. If a handler returns it, the fields that
// grpc-go's status lacks are preserved.
type received struct{ of relay.Status }

// Error implements error.
func (e *received) Error() string { return e.GRPCStatus().String() }

// GRPCStatus implements the interface that status.FromError uses.
func (e *received) GRPCStatus() *status.Status { return status.FromProto(statusProto(e.of)) }

// Relayed returns the status for the relay.
func (e *received) Relayed() relay.Status { return e.of }

// notStarted is the error of a call that provably did not start.
type notStarted struct{ cause error }

// Error implements error.
func (e *notStarted) Error() string { return "the call was not sent: " + e.cause.Error() }

// Unwrap returns the cause.
func (e *notStarted) Unwrap() error { return e.cause }

// NotStarted returns the error of a handler that stands for a backend, see relay.UpstreamConfig, if the call provably
// did not start there. cause is for Handler.Unsent, and not sent to the caller.
func NotStarted(cause error) error { return &notStarted{cause} }

// Failed returns the error of a handler that stands for a backend, see relay.UpstreamConfig, if the call may have
// started and the backend has failed. cause is the error for the caller.
func Failed(how relay.Failure, cause error) error { return &failed{how, cause} }

// failed is the error of a call whose backend failed.
type failed struct {
	how   relay.Failure
	cause error
}

// Error implements error.
func (e *failed) Error() string { return e.cause.Error() }

// Unwrap returns the error for the caller.
func (e *failed) Unwrap() error { return e.cause }

// GRPCStatus implements the interface that status.FromError uses.
func (e *failed) GRPCStatus() *status.Status { return status.Convert(e.cause) }

// Relayed returns the status for the relay.
func (e *failed) Relayed() relay.Status {
	st := StatusOf(e.cause)
	st.Failure = e.how
	return st
}

// StatusOf converts an error of a handler to a status of the relay. The text of an error without a status is that of a
// library, which may quote the request, and is not sent.
func StatusOf(err error) relay.Status {
	var unsent *notStarted
	if errors.As(err, &unsent) {
		return relay.Status{Code: uint32(codes.Unavailable), Unsent: unsent.cause}
	}
	st, ok := status.FromError(err)
	if !ok {
		err = plain(err)
	}
	var whole interface{ Relayed() relay.Status }
	if errors.As(err, &whole) {
		return whole.Relayed()
	}
	out := relay.Status{Code: uint32(st.Code()), Message: st.Message()}
	if p := st.Proto(); len(p.GetDetails()) > 0 {
		if details, err := proto.Marshal(p); err == nil {
			out.Details = details
		}
	}
	return out
}
