package dialect

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// unread returns the error of an untranslatable response; nil if err is another error. A backend that cannot decode
// its request may return the same error, but then without a header.
func unread(err error, header metadata.MD) *call.Refusal {
	if err == nil || len(header) == 0 {
		return nil
	}
	switch {
	case tooLong(grpcstatus.Convert(err)):
		return refusedLongAnswer
	case localgrpc.Malformed(err):
		return refusedAnswer
	}
	return nil
}

// tooLong reports whether the gateway itself has ended a call because its response exceeds the maximum message size.
func tooLong(st *grpcstatus.Status) bool {
	return st.Code() == codes.ResourceExhausted &&
		status.DetailsOf(st.Err()).Info.GetReason() == refusedLongAnswer.Reason
}

var (
	refusedAnswer = &call.Refusal{Kind: call.Internal, Reason: "ANSWER_MALFORMED", Progress: call.Sent,
		Message: "the capability's response is not a message of its dialect, so it cannot be translated to the " +
			"caller's"}
	refusedLongAnswer = &call.Refusal{Kind: call.ResourceExhausted, Reason: "MESSAGE_TOO_LARGE", Progress: call.Sent,
		Message: "the capability's response exceeds 16 MiB, and cannot be translated to the caller's dialect"}
)
