package gateway

import (
	"hash/maphash"
	"net/http"
	"strings"
	"sync/atomic"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// errorDomain is google.rpc.ErrorInfo.domain of everything that the gateway says no
// to. A status without it comes from a backend.
const errorDomain = "capgate.dev"

// kindCodes is the only place where a refusal becomes a gRPC code.
var kindCodes = [...]codes.Code{
	call.Internal:           codes.Internal,
	call.InvalidArgument:    codes.InvalidArgument,
	call.NotFound:           codes.NotFound,
	call.PermissionDenied:   codes.PermissionDenied,
	call.Unauthenticated:    codes.Unauthenticated,
	call.ResourceExhausted:  codes.ResourceExhausted,
	call.FailedPrecondition: codes.FailedPrecondition,
	call.Unimplemented:      codes.Unimplemented,
	call.Unavailable:        codes.Unavailable,
	call.DeadlineExceeded:   codes.DeadlineExceeded,
	call.Canceled:           codes.Canceled,
	call.AlreadyExists:      codes.AlreadyExists,
	call.Aborted:            codes.Aborted,
	call.DataLoss:           codes.DataLoss,
}

// failures says how the relay's own failures read. Their reason is the failure's
// name. None tells the caller to retry: the call may have been carried out.
var failures = [...]struct {
	code    codes.Code
	message string
}{
	relay.NoFailure: {codes.Internal, "the call ended without a reason"},
	relay.UpstreamLost: {codes.Unavailable,
		"the connection to the backend was lost; the call may have been carried out"},
	relay.UpstreamProtocol: {codes.Internal, "the backend broke the HTTP/2 protocol"}, // as grpc maps PROTOCOL_ERROR
	relay.DeadlineExceeded: {codes.DeadlineExceeded, "the call's time is over"},
	relay.MessageTooLarge:  {codes.ResourceExhausted, "a message is longer than the gateway accepts"},
	relay.MessageMalformed: {codes.InvalidArgument, "the first message is malformed or cut off"},
	relay.MessageTimeout:   {codes.DeadlineExceeded, "the first message did not arrive in time"},
	relay.MemoryExceeded:   {codes.ResourceExhausted, "the gateway holds too much that this call's reader has not read"},
	relay.Draining:         {codes.Unavailable, "the gateway is shutting down"},
	relay.ClientGone:       {codes.Canceled, "the caller left"},
	relay.ClientProtocol:   {codes.InvalidArgument, "the request breaks the HTTP/2 protocol"},
	relay.TooManyBytes:     {codes.ResourceExhausted, "the stream has more bytes than it may"},
	relay.Panicked:         {codes.Internal, filter.Panicked.Message},
	relay.TooManyMessages:  {codes.ResourceExhausted, "the stream has more messages than it may"},
	relay.MessageFollowed: {codes.InvalidArgument,
		"something follows the request's only message; what was sent of it before may have run"},
	relay.AccountExceeded: {codes.ResourceExhausted,
		"the gateway holds as much for this caller as its share of the memory allows"},
}

// httpStatuses follows the comments of google/rpc/code.proto.
var httpStatuses = [...]int{
	codes.OK:                 http.StatusOK,
	codes.Canceled:           499, // client closed request; net/http has no name for it
	codes.Unknown:            http.StatusInternalServerError,
	codes.InvalidArgument:    http.StatusBadRequest,
	codes.DeadlineExceeded:   http.StatusGatewayTimeout,
	codes.NotFound:           http.StatusNotFound,
	codes.AlreadyExists:      http.StatusConflict,
	codes.PermissionDenied:   http.StatusForbidden,
	codes.ResourceExhausted:  http.StatusTooManyRequests,
	codes.FailedPrecondition: http.StatusBadRequest,
	codes.Aborted:            http.StatusConflict,
	codes.OutOfRange:         http.StatusBadRequest,
	codes.Unimplemented:      http.StatusNotImplemented,
	codes.Internal:           http.StatusInternalServerError,
	codes.Unavailable:        http.StatusServiceUnavailable,
	codes.DataLoss:           http.StatusInternalServerError,
	codes.Unauthenticated:    http.StatusUnauthorized,
}

// HTTPStatus returns the HTTP status that says what a gRPC code says; 500 for a
// code that gRPC does not know.
func HTTPStatus(code codes.Code) int {
	if int(code) >= len(httpStatuses) {
		return http.StatusInternalServerError
	}
	return httpStatuses[code]
}

// codeOf returns the gRPC code of a kind of refusal.
func codeOf(k call.Kind) codes.Code {
	if int(k) >= len(kindCodes) {
		return codes.Internal
	}
	return kindCodes[k]
}

// GRPCStatus turns a refusal into a status of grpc-go, for services that refuse what does
// not come through the relay.
func GRPCStatus(r *call.Refusal) *status.Status { return status.FromProto(protoOf(r)) }

// statusOf turns a refusal into the status that goes into trailers.
func statusOf(r *call.Refusal) relay.Status {
	s := marshal(protoOf(r))
	if r.Kind == call.Unauthenticated {
		s.Challenge = problem.Challenge(r.Reason)
	}
	return s
}

func protoOf(r *call.Refusal) *spb.Status {
	details := []proto.Message{&errdetails.ErrorInfo{Reason: r.Reason, Domain: errorDomain,
		Metadata: validMetadata(r.Metadata)}}
	if r.Quota != "" {
		violation := &errdetails.QuotaFailure_Violation{Subject: validUTF8(r.Quota), Description: validUTF8(r.Message)}
		details = append(details, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{violation}})
	}
	if r.RetryAfter > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)})
	}
	return newStatus(codeOf(r.Kind), r.Message, details...)
}

// explain turns a failure of the relay into the status that goes into trailers.
func explain(f relay.Failure) relay.Status {
	if int(f) >= len(failures) {
		f = relay.NoFailure
	}
	reason := f.String()
	if f == relay.NoFailure {
		reason = "INTERNAL"
	}
	return marshal(newStatus(failures[f].code, failures[f].message,
		&errdetails.ErrorInfo{Reason: reason, Domain: errorDomain}))
}

func newStatus(code codes.Code, message string, details ...proto.Message) *spb.Status {
	s := &spb.Status{Code: int32(code), Message: validUTF8(message)}
	for _, d := range details {
		packed := new(anypb.Any)
		// two that say the same have the same bytes
		if anypb.MarshalFrom(packed, d, proto.MarshalOptions{Deterministic: true}) == nil {
			s.Details = append(s.Details, packed)
		}
	}
	return s
}

// marshal makes a status ready for trailers. Should that fail, which valid UTF-8 rules
// out, the caller still gets code and message.
func marshal(s *spb.Status) relay.Status {
	marshalled := relay.Status{Code: uint32(s.GetCode()), Message: s.GetMessage()}
	if b, err := (proto.MarshalOptions{Deterministic: true}).Marshal(s); err == nil {
		marshalled.Details = b
	}
	return marshalled
}

// validUTF8 makes a string fit for protobuf, which refuses any other. Refusals quote
// names that clients sent.
func validUTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

func validMetadata(m map[string]string) map[string]string {
	valid := make(map[string]string, len(m))
	for k, v := range m {
		valid[validUTF8(k)] = validUTF8(v)
	}
	return valid
}

// statuses remembers the marshalled statuses of failures and of refusals that are
// shared by many calls. It is safe for concurrent use and takes no lock.
//
// A refusal's place is a hash of its address, and whoever comes last has it: one
// made for a single call is pushed out by the next, a shared one comes back with
// the next call that it refuses. At most len(places) refusals are kept alive.
type statuses struct {
	seed     maphash.Seed
	places   [256]atomic.Pointer[knownStatus]
	failures [len(failures)]relay.Status
}

type knownStatus struct {
	refusal *call.Refusal
	status  relay.Status
}

func newStatuses() *statuses {
	s := &statuses{seed: maphash.MakeSeed()}
	for f := range s.failures {
		s.failures[f] = explain(relay.Failure(f))
	}
	return s
}

// of returns a refusal's status. The refusal must never change again.
func (s *statuses) of(r *call.Refusal) relay.Status {
	place := &s.places[maphash.Comparable(s.seed, r)%uint64(len(s.places))]
	if known := place.Load(); known != nil && known.refusal == r {
		return known.status
	}
	known := &knownStatus{refusal: r, status: statusOf(r)}
	place.Store(known)
	return known.status
}

// explain returns a failure's status.
func (s *statuses) explain(f relay.Failure) relay.Status {
	if int(f) >= len(s.failures) {
		f = relay.NoFailure
	}
	return s.failures[f]
}
