package gateway

import (
	"hash/maphash"
	"net/http"
	"strings"
	"sync/atomic"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
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

// progress is how far a refused call came.
type progress uint8

const (
	unsaid     progress = iota // only the service that answers it knows
	notStarted                 // no backend got it: the status says so, as call.NotStarted
	mayHaveRun                 // a backend may have carried it out: nothing asks the caller to repeat it
)

// progressOf is how far a call came that a backend may have carried out, or not.
func progressOf(ran bool) progress {
	if ran {
		return mayHaveRun
	}
	return notStarted
}

// ranText follows the message of a failure of a call that may have run. Some clients repeat calls by the words of their
// errors: TestWordsThatClientsRetryOn has those that must not be in such a message.
const ranText = "; the call may have been carried out"

// failures says how the relay's own failures read, before ranText. Their reason is the failure's name. None tells the
// caller to retry.
var failures = [...]struct {
	code    codes.Code
	message string
}{
	relay.NoFailure:        {codes.Internal, "the call ended without a reason"},
	relay.UpstreamLost:     {codes.Unavailable, "the backend was lost before its answer was complete"},
	relay.UpstreamProtocol: {codes.Internal, "the backend broke the HTTP/2 protocol"}, // as grpc maps PROTOCOL_ERROR
	relay.DeadlineExceeded: {codes.DeadlineExceeded, "the call's time is over"},
	relay.MessageTooLarge:  {codes.ResourceExhausted, "a message is longer than the gateway accepts"},
	relay.MessageMalformed: {codes.InvalidArgument, "the first message is malformed or cut off"},
	relay.MessageTimeout:   {codes.DeadlineExceeded, "the first message did not arrive in time"},
	relay.MemoryExceeded:   {codes.ResourceExhausted, "the gateway holds too much that this call's reader has not read"},
	relay.Draining:         {codes.Unavailable, "the gateway is stopping"},
	relay.ClientGone:       {codes.Canceled, "the caller left"},
	relay.ClientProtocol:   {codes.InvalidArgument, "the request breaks the HTTP/2 protocol"},
	relay.TooManyBytes:     {codes.ResourceExhausted, "the stream has more bytes than it may"},
	relay.Panicked:         {codes.Internal, filter.Panicked.Message},
	relay.TooManyMessages:  {codes.ResourceExhausted, "the stream has more messages than it may"},
	relay.MessageFollowed:  {codes.InvalidArgument, "something follows the request's only message"},
	relay.AccountExceeded: {codes.ResourceExhausted,
		"the gateway holds as much for this caller as its share of the memory allows"},
	relay.UpstreamReset: {codes.Internal, "the backend broke the call off"}, // the code is that of the reset
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
func GRPCStatus(r *call.Refusal) *status.Status { return status.FromProto(protoOf(r, unsaid)) }

// statusOf turns a refusal into the status that goes into trailers.
func statusOf(r *call.Refusal, far progress) relay.Status {
	s := marshal(protoOf(r, far))
	if r.Kind == call.Unauthenticated {
		s.Challenge = problem.Challenge(r.Reason)
	}
	s.NoRetry = far == mayHaveRun || r.MayHaveRun
	return s
}

func protoOf(r *call.Refusal, far progress) *spb.Status {
	if r.MayHaveRun {
		far = mayHaveRun
	}
	details := []proto.Message{infoOf(r.Reason, r.Metadata, far)}
	if r.Quota != "" {
		violation := &errdetails.QuotaFailure_Violation{Subject: validUTF8(r.Quota), Description: validUTF8(r.Message)}
		details = append(details, &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{violation}})
	}
	if r.RetryAfter > 0 && far != mayHaveRun {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)})
	}
	return newStatus(codeOf(r.Kind), r.Message, details...)
}

// explain turns a failure of the relay into the status that goes into trailers.
func explain(f relay.Failure, far progress) relay.Status {
	if int(f) >= len(failures) {
		f = relay.NoFailure
	}
	return explainAs(failures[f].code, f, far)
}

// explainAs is explain with a code.
func explainAs(code codes.Code, f relay.Failure, far progress) relay.Status {
	reason := f.String()
	if f == relay.NoFailure {
		reason = "INTERNAL"
	}
	text := failures[f].message
	if far == mayHaveRun {
		text += ranText
	}
	s := marshal(newStatus(code, text, infoOf(reason, nil, far)))
	s.NoRetry = far == mayHaveRun
	return s
}

func infoOf(reason string, metadata map[string]string, far progress) *errdetails.ErrorInfo {
	info := &errdetails.ErrorInfo{Reason: reason, Domain: errorDomain, Metadata: validMetadata(metadata)}
	if far == notStarted {
		info.Metadata[call.NotStarted] = "true"
	}
	return info
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
	failures [len(failures)][2]relay.Status // of calls that did not start, and of those that may have run
}

type knownStatus struct {
	refusal *call.Refusal
	ran     bool
	status  relay.Status
}

func newStatuses() *statuses {
	s := &statuses{seed: maphash.MakeSeed()}
	for f := range s.failures {
		s.failures[f] = [2]relay.Status{explain(relay.Failure(f), notStarted), explain(relay.Failure(f), mayHaveRun)}
	}
	return s
}

// of returns a refusal's status. The refusal must never change again. ran says that the call may have run.
func (s *statuses) of(r *call.Refusal, ran bool) relay.Status {
	place := &s.places[maphash.Comparable(s.seed, r)%uint64(len(s.places))]
	if known := place.Load(); known != nil && known.refusal == r && known.ran == ran {
		return known.status
	}
	known := &knownStatus{refusal: r, ran: ran, status: statusOf(r, progressOf(ran))}
	place.Store(known)
	return known.status
}

// explain returns a failure's status. ran says that the call may have run.
func (s *statuses) explain(f relay.Failure, ran bool) relay.Status {
	if int(f) >= len(s.failures) {
		f = relay.NoFailure
	}
	if ran {
		return s.failures[f][1]
	}
	return s.failures[f][0]
}

// noMethod answers calls of methods that there are not. grpc-go's own answer repeats the path, with
// whatever a caller has put there by mistake.
func noMethod(any, grpc.ServerStream) error {
	return status.FromProto(protoOf(refusedMethod, notStarted)).Err()
}

var refusedMethod = &call.Refusal{Kind: call.Unimplemented, Reason: "METHOD_UNKNOWN",
	Message: "the gateway has no method of this name"}
