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

// statusProto returns a status of the relay with its details, as far as they can be read and have the same code.
func statusProto(st relay.Status) *spb.Status {
	out := &spb.Status{}
	if len(st.Details) > 0 && proto.Unmarshal(st.Details, out) == nil && out.GetCode() == codeOf(st.Code) {
		return out
	}
	return &spb.Status{Code: codeOf(st.Code), Message: st.Message}
}

// plain returns the error to pass on for one of a handler that has no status.
func plain(err error) error {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return gatewaystatus.ContextError(err, call.Sent)
	case errors.Is(err, io.ErrUnexpectedEOF): // the relay's, of a request
		return undecodable.ofRequest()
	}
	return gatewaystatus.Error(failedHandler, call.Answered)
}

var failedHandler = &call.Refusal{Kind: call.Internal, Reason: "INTERNAL",
	Message: "the gateway failed to serve the call"}

// received is the error of a call that has ended with a status of the relay. A handler that returns it passes on what
// a status of grpc-go has no place for.
type received struct{ of relay.Status }

// Error implements error.
func (e *received) Error() string { return e.GRPCStatus().String() }

// GRPCStatus implements the interface that status.FromError looks for.
func (e *received) GRPCStatus() *status.Status { return status.FromProto(statusProto(e.of)) }

// Relayed returns the status for the relay.
func (e *received) Relayed() relay.Status { return e.of }

// notStarted is the error of a call that provably did not start.
type notStarted struct{ cause error }

// Error implements error.
func (e *notStarted) Error() string { return "the call was not sent: " + e.cause.Error() }

// Unwrap returns why.
func (e *notStarted) Unwrap() error { return e.cause }

// NotStarted returns the error of a handler that stands for a backend, see relay.UpstreamConfig, where the call
// provably did not start there. cause is for Handler.Unsent, and not for the caller.
func NotStarted(cause error) error { return &notStarted{cause} }

// Failed returns an error of a handler that stands for a backend, see relay.UpstreamConfig, where the call may have
// started and the backend has failed. cause is what the caller gets.
func Failed(how relay.Failure, cause error) error { return &failed{how, cause} }

// failed is the error of a call that its backend failed.
type failed struct {
	how   relay.Failure
	cause error
}

// Error implements error.
func (e *failed) Error() string { return e.cause.Error() }

// Unwrap returns what the caller gets.
func (e *failed) Unwrap() error { return e.cause }

// GRPCStatus implements the interface that status.FromError looks for.
func (e *failed) GRPCStatus() *status.Status { return status.Convert(e.cause) }

// Relayed returns the status for the relay.
func (e *failed) Relayed() relay.Status {
	st := StatusOf(e.cause)
	st.Failure = e.how
	return st
}

// StatusOf returns an error of a handler as the relay sends it. The text of an error that is no status is that of a
// library, which may quote the request: it is not sent.
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
