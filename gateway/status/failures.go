package status

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// ranText follows the message of a failure of a call that may have run. Some clients retry based on the text of an
// error: TestWordsThatClientsRetryOn has the words that such a message must not contain.
const ranText = "; the call may have been carried out"

// failures holds the messages of the relay's failures, without ranText. Their reason is the failure's name. No message
// suggests a retry.
var failures = [...]struct {
	code    codes.Code
	message string
}{
	relay.NoFailure:    {codes.Internal, "the call ended without a reason"},
	relay.UpstreamLost: {codes.Unavailable, "the backend was lost before its response was complete"},
	relay.UpstreamProtocol: {codes.Internal, "the backend violated the HTTP/2 " +
		"protocol"}, // as grpc maps PROTOCOL_ERROR
	relay.DeadlineExceeded: {codes.DeadlineExceeded, "the call's deadline has passed"},
	relay.MessageTooLarge:  {codes.ResourceExhausted, "a message is longer than the gateway accepts"},
	relay.MessageMalformed: {codes.InvalidArgument, "a message is malformed or truncated"},
	relay.MessageTimeout:   {codes.DeadlineExceeded, "the first message did not arrive in time"},
	relay.MemoryExceeded: {codes.ResourceExhausted,
		"the gateway holds too much unread data of this call"},
	relay.Draining:        {codes.Unavailable, "the gateway is stopping"},
	relay.ClientGone:      {codes.Canceled, "the caller left"},
	relay.ClientProtocol:  {codes.InvalidArgument, "the request violates the HTTP/2 protocol"},
	relay.TooManyBytes:    {codes.ResourceExhausted, "the stream exceeds its limit of bytes"},
	relay.Panicked:        {codes.Internal, Panicked.Message},
	relay.TooManyMessages: {codes.ResourceExhausted, "the stream exceeds its limit of messages"},
	relay.MessageFollowed: {codes.InvalidArgument, "data follows the only message of the request"},
	relay.AccountExceeded: {codes.ResourceExhausted,
		"this caller has used its share of the gateway's memory"},
	relay.UpstreamReset: {codes.Internal, "the backend aborted the call"}, // with the code of the reset
	relay.UpstreamNotGRPC: {codes.Unknown, // with the code of the HTTP status
		"the response is not gRPC: it comes from another server than the backend, or has no status"},
}

// Panicked is the refusal of a call during which the gateway panicked.
var Panicked = &call.Refusal{Kind: call.Internal, Reason: "INTERNAL_PANIC",
	Message: "the gateway failed because of a defect: its log has a line \"panic\" with the stack"}

// Failure returns the status for a failure of the relay.
func Failure(f relay.Failure, p call.Progress) relay.Status {
	if int(f) >= len(failures) {
		f = relay.NoFailure
	}
	return Reset(failures[f].code, f, p)
}

// ContextError returns the error of a call whose context has ended with err.
func ContextError(err error, p call.Progress) error {
	r := &call.Refusal{Kind: call.Canceled, Reason: relay.ClientGone.String(),
		Message: failures[relay.ClientGone].message}
	if errors.Is(err, context.DeadlineExceeded) {
		r = &call.Refusal{Kind: call.DeadlineExceeded, Reason: relay.DeadlineExceeded.String(),
			Message: failures[relay.DeadlineExceeded].message}
	}
	if p == call.Sent {
		r.Message += ranText
	}
	return Error(r, p)
}

// Reset returns the status of a failure with another code: that of the backend's reset, or of its HTTP status.
func Reset(code codes.Code, f relay.Failure, p call.Progress) relay.Status {
	reason, text := f.String(), failures[f].message
	if f == relay.NoFailure {
		reason = "INTERNAL"
	}
	if p == call.Sent {
		text += ranText
	}
	s := marshal(newStatus(code, text, newInfo(reason, nil, p)))
	s.NoRetry = p == call.Sent
	return s
}
