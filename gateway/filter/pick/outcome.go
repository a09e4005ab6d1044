package pick

import (
	"errors"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/filter"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
)

// deadlineSlack is how long before a call's deadline its client may leave and the deadline still counts as the reason:
// both ends of a call watch it, and either may be first.
const deadlineSlack = 20 * time.Millisecond

// outcomeOf is what a call that ended with r says of its backend, for outlier detection.
//
// A backend has failed when its connection was lost, when it broke the protocol or reset the call before an answer,
// when it answered UNAVAILABLE, as gateways and servers do that cannot serve, and when something else than a gRPC
// server answered, such as a load balancer, unless that rejects the request itself. Every other status is an answer.
// That includes UNKNOWN and INTERNAL: gRPC servers make them of an error in a tool, and a client that calls the tool
// again and again must not have its backend ejected. DEADLINE_EXCEEDED from the backend is an answer, too. A tool's own
// error is a status OK. A call that its client or a limit of the gateway ended says nothing.
func outcomeOf(c *filter.Call, r *relay.Result) router.Outcome {
	if c.Endpoint == nil {
		return router.Outcome{}
	}
	o := router.Outcome{At: r.Started.Add(r.Ended)}
	silent := r.Forwarded > 0 && r.FirstByte == 0
	switch {
	case r.Failure == relay.UpstreamLost, r.Failure == relay.UpstreamProtocol:
		o.Class = router.Failed
	case r.Failure == relay.UpstreamNotGRPC:
		switch codes.Code(r.Code) {
		case codes.Unauthenticated, codes.PermissionDenied, codes.Internal: // HTTP 401, 403, 400, 431: for this request
		default:
			o.Class = router.Failed
		}
	case r.Failure == relay.DeadlineExceeded, r.Failure == relay.ClientGone && c.Deadline > 0 &&
		r.Ended >= c.Deadline-deadlineSlack:
		if silent {
			o.Class, o.Latency = router.TimedOut, r.Ended-r.Forwarded
		}
	case r.Failure != relay.NoFailure && r.Failure != relay.UpstreamReset || !r.Upstream:
	case codes.Code(r.Code) == codes.Unavailable, r.FirstByte == 0 && codes.Code(r.Code) != codes.Canceled:
		o.Class = router.Failed
	case r.FirstByte > 0:
		o.Class, o.Latency = router.Succeeded, latency(c, r)
		if o.Latency > 0 && c.Info.Method == call.Invoke {
			o.Took = r.Ended - r.Forwarded
		}
	}
	return o
}

// latency is how long the backend took to answer, where that is its own doing: an
// upload is as slow as its caller, and of what other services stream nothing is known.
func latency(c *filter.Call, r *relay.Result) time.Duration {
	switch c.Info.Method {
	case call.Invoke, call.StreamInvoke, call.DownloadOutputArtifact:
		if c.Attempt.Past == 0 { // else Forwarded is the first try's
			return max(r.FirstByte-r.Forwarded, 1)
		}
	}
	return 0
}

// outcomeOfUnsent is what a call says of the backend where it did not start.
func outcomeOfUnsent(c *filter.Call, err error) router.Outcome {
	switch {
	case c.Endpoint == nil:
		return router.Outcome{}
	case errors.Is(err, relay.ErrRefused):
		return router.Outcome{Class: router.Failed}
	case errors.Is(err, relay.ErrGoAway), errors.Is(err, relay.ErrQueueFull), errors.Is(err, relay.ErrClosed),
		filter.OwnFault(err):
		return router.Outcome{}
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return router.Outcome{Class: router.Refused}
	}
	return router.Outcome{Class: router.Unreachable}
}
