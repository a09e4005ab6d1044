package localgrpc

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// fault is an error of a message. The text of the library that detected it may quote the message, and is not sent.
type fault uint8

const (
	undecodable  fault = iota // not a message of its type
	uninflatable              // not compressed as its header says
	unsupported               // its encoding is unknown
	tooLong
	missing
	several
)

// requests holds the refusals of clients' messages, and answers those of capabilities' messages.
var (
	requests = [...]*call.Refusal{
		undecodable: {Kind: call.InvalidArgument, Reason: "REQUEST_MALFORMED",
			Message: "the request is not a message of this method, or a string in it is not valid UTF-8"},
		uninflatable: {Kind: call.InvalidArgument, Reason: "REQUEST_MALFORMED",
			Message: "the request cannot be decompressed: it does not match its grpc-encoding"},
		unsupported: {Kind: call.Unimplemented, Reason: "ENCODING_UNSUPPORTED",
			Message: "the request is compressed in a way that the gateway does not support; it supports gzip"},
		tooLong: {Kind: call.ResourceExhausted, Reason: "MESSAGE_TOO_LARGE",
			Message: "the request is longer than the gateway accepts"},
	}
	answers = [...]*call.Refusal{
		undecodable: malformed("the capability's response is not a message of its type, or a string in it is not " +
			"valid UTF-8"),
		uninflatable: malformed("the capability's response cannot be decompressed: it is not compressed as " +
			"grpc-encoding says"),
		unsupported: malformed("the capability's response is compressed in a way that the gateway does not support"),
		tooLong: {Kind: call.ResourceExhausted, Reason: "MESSAGE_TOO_LARGE", Progress: call.Sent,
			Message: "the capability's response is longer than the caller accepts"},
		missing: malformed("the capability's response has no message"),
		several: malformed("the capability's response has more than one message"),
	}
)

func malformed(text string) *call.Refusal {
	return &call.Refusal{Kind: call.Internal, Reason: "ANSWER_MALFORMED", Progress: call.Sent, Message: text}
}

// ofRequest returns the error of a client's message.
func (f fault) ofRequest() error { return status.Error(requests[f], call.Answered) }

// ofAnswer returns the error of a capability's message.
func (f fault) ofAnswer() error { return status.Error(answers[f], call.Sent) }

// Malformed reports whether a call failed because the gateway could not read its response.
func Malformed(err error) bool {
	return err != nil && status.InfoOf(err).GetReason() == answers[undecodable].Reason
}

// ended returns the error of a call that the relay itself has ended.
func ended(st relay.Status) error {
	switch codes.Code(st.Code) {
	case codes.Internal, codes.Unknown:
		return status.Error(malformed(st.Message), call.Sent)
	case codes.ResourceExhausted:
		return tooLong.ofAnswer()
	case codes.DeadlineExceeded:
		return status.ContextError(context.DeadlineExceeded, call.Sent)
	case codes.Canceled:
		return status.ContextError(context.Canceled, call.Sent)
	}
	return &received{status.Reset(codes.Code(st.Code), relay.UpstreamReset, call.Sent)}
}

// errorOf converts an error of the relay to the error of a call.
func errorOf(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return status.ContextError(err, call.Sent)
	case errors.Is(err, relay.ErrHandleDead):
		return status.ContextError(context.Canceled, call.Sent)
	}
	return status.Error(&call.Refusal{Kind: call.Unavailable, Reason: relay.Draining.String(),
		Message: "the gateway cannot make the call: it is stopping"}, call.Answered)
}
