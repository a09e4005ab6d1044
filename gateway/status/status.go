package status

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// Of returns the status of a refused call, for grpc-go.
func Of(r *call.Refusal, p call.Progress) *status.Status { return status.FromProto(protoOf(r, p)) }

// Answer returns the status of a refusal by the service that answers the call.
func Answer(r *call.Refusal) *status.Status { return Of(r, call.Answered) }

// Relayed returns the status of a refusal as the relay writes it into trailers.
func Relayed(r *call.Refusal, p call.Progress) relay.Status {
	s := marshal(protoOf(r, p))
	s.Challenge = Challenge(CodeOf(r.Kind), r.Reason, r.Metadata)
	s.NoRetry = p == call.Sent || r.Progress == call.Sent
	return s
}

// UnknownMethod answers calls of unknown methods. The response of grpc-go would repeat the path, which may contain
// anything that a caller put there by mistake. UnknownMethod is a grpc.StreamHandler.
func UnknownMethod(any, grpc.ServerStream) error { return Of(refusedMethod, call.NotSent).Err() }

var refusedMethod = &call.Refusal{Kind: call.Unimplemented, Reason: "METHOD_UNKNOWN",
	Message: "the gateway has no method with this name"}

func protoOf(r *call.Refusal, p call.Progress) *spb.Status {
	if r.Progress == call.Sent {
		p = call.Sent
	}
	details := []proto.Message{newInfo(r.Reason, r.Metadata, p)}
	if r.Quota != "" {
		violation := &errdetails.QuotaFailure_Violation{Subject: untrusted.UTF8(r.Quota),
			Description: untrusted.UTF8(r.Message)}
		details = append(details, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{violation}})
	}
	if r.RetryAfter > 0 && p != call.Sent {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)})
	}
	return newStatus(CodeOf(r.Kind), r.Message, details...)
}

func newStatus(code codes.Code, message string, details ...proto.Message) *spb.Status {
	s := &spb.Status{Code: int32(code), Message: untrusted.UTF8(message)}
	for _, d := range details {
		packed := new(anypb.Any)
		// deterministic, so that equal details have equal bytes
		if anypb.MarshalFrom(packed, d, proto.MarshalOptions{Deterministic: true}) == nil {
			s.Details = append(s.Details, packed)
		}
	}
	return s
}

// marshal encodes a status for trailers. If that fails, which valid UTF-8 prevents, the client still receives code and
// message.
func marshal(s *spb.Status) relay.Status {
	marshalled := relay.Status{Code: uint32(s.GetCode()), Message: s.GetMessage()}
	if b, err := (proto.MarshalOptions{Deterministic: true}).Marshal(s); err == nil {
		marshalled.Details = b
	}
	return marshalled
}
