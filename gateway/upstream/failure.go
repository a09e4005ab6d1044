package upstream

import (
	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/localgrpc"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// mayHaveRun ends the message of a call that a backend may have carried out.
const mayHaveRun = "; the call may have been carried out"

// Lost returns the error of a call that the backend has, or may have, received without a response. It counts as a call
// whose connection was lost: it is retried if the tool is declared idempotent, and the client is not encouraged to
// retry. The text has no word of TestWordsThatClientsRetryOn.
func Lost(text string) error {
	return localgrpc.Failed(relay.UpstreamLost, status.Error(&call.Refusal{Kind: call.Unavailable,
		Reason: "UPSTREAM_LOST", Message: text + mayHaveRun, Progress: call.Sent}, call.Sent))
}

// Ended returns the error of a call whose context has ended with err.
func Ended(err error) error { return status.ContextError(err, call.Sent) }

// Unusable returns the error of a call whose backend's response is invalid in its protocol, or exceeds a limit of the
// gateway.
func Unusable(kind call.Kind, text string) error {
	return status.Error(&call.Refusal{Kind: kind, Reason: "UPSTREAM_ANSWER_INVALID", Message: text + mayHaveRun,
		Progress: call.Sent}, call.Sent)
}

// NotGRPC returns the error of a call with a response that is not from a gRPC server, but, for example, a load
// balancer. It counts as a failure of the backend.
func NotGRPC(code codes.Code) error {
	st := status.Reset(code, relay.UpstreamNotGRPC, call.Sent)
	return localgrpc.Failed(relay.UpstreamNotGRPC, localgrpc.StatusError(st))
}

// Rejected returns the error of a call that the backend, or an intermediary, rejected before it started.
func Rejected(kind call.Kind, text string) error {
	return status.Error(&call.Refusal{Kind: kind, Reason: "UPSTREAM_REJECTED", Message: text}, call.NotSent)
}
