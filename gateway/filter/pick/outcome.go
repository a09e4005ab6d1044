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

// deadlineSlack is the maximum time before a call's deadline at which a client's cancellation still counts as an
// expired deadline. Both ends observe the deadline, and either may be first.
const deadlineSlack = 20 * time.Millisecond

// outcomeOf returns the outcome of a call that ended with r, for outlier detection of its backend.
//
// A backend has failed if its connection was lost, if it violated the protocol or reset the call before its response,
// if it responded with UNAVAILABLE, and if the response came from a server other than gRPC, such as a load balancer,
// unless that rejected the request itself. Every other status is a success, including UNKNOWN and INTERNAL: gRPC
// servers use them for errors in a tool, and a client that repeats such a call must not cause the ejection of the
// backend. DEADLINE_EXCEEDED from the backend is a success too. A call ended by its client or by a limit of the
// gateway has no outcome.
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
		// HTTP 401, 403, 400 and 431 concern this request
		case codes.Unauthenticated, codes.PermissionDenied, codes.Internal:
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

// latency returns the response time of the backend, if the backend alone determines it: an upload depends on its
// client, and streams of other services are unknown.
func latency(c *filter.Call, r *relay.Result) time.Duration {
	switch c.Info.Method {
	case call.Invoke, call.StreamInvoke, call.DownloadOutputArtifact:
		if c.Attempt.Past == 0 { // otherwise Forwarded is the time of the first attempt
			return max(r.FirstByte-r.Forwarded, 1)
		}
	}
	return 0
}

// outcomeOfUnsent returns the outcome of an attempt that did not start.
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
