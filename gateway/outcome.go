package gateway

import (
	"errors"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/router"
)

// deadlineSlack is how long before a call's deadline its caller may leave and it is
// still the deadline: both ends of a call watch it, and either may be first.
const deadlineSlack = 20 * time.Millisecond

// learned is what a call that ended with r says of its backend.
//
// A backend has failed when its connection was lost, when it broke the protocol or
// reset the call before an answer, and when it answered UNAVAILABLE, as gateways and
// servers do that cannot serve. Every other status is an answer, UNKNOWN and INTERNAL
// too: they are what gRPC servers make of an error in a tool, and whoever calls that
// tool again and again must not take its backend from everybody else. So is
// DEADLINE_EXCEEDED from the backend: it was there to say it. A tool's own error is a
// status OK. What the caller, or a limit of ours, ended says nothing.
func (t *callState) learned(r *relay.Result) router.Outcome {
	if t.crossing.ticket != "" || t.Endpoint == nil {
		return router.Outcome{} // the backend is known to the call that came back from the translator
	}
	o := router.Outcome{At: r.Started.Add(r.Ended)}
	silent := r.Forwarded > 0 && r.FirstByte == 0
	switch {
	case r.Failure == relay.UpstreamLost, r.Failure == relay.UpstreamProtocol:
		o.Class = router.Failed
	case r.Failure == relay.DeadlineExceeded, r.Failure == relay.ClientGone && t.Deadline > 0 && r.Ended >= t.Deadline-deadlineSlack:
		if silent {
			o.Class, o.Latency = router.TimedOut, r.Ended-r.Forwarded
		}
	case r.Failure != relay.NoFailure || !r.Upstream:
	case codes.Code(r.Code) == codes.Unavailable, r.FirstByte == 0 && codes.Code(r.Code) != codes.Canceled:
		o.Class = router.Failed
	case r.FirstByte > 0:
		o.Class, o.Latency = router.Succeeded, t.latency(r)
	}
	return o
}

// latency is how long the backend took to answer, where that is its own doing: an
// upload is as slow as its caller, and of what other services stream nothing is known.
func (t *callState) latency(r *relay.Result) time.Duration {
	switch t.Info.Method {
	case call.Invoke, call.StreamInvoke, call.DownloadOutputArtifact:
		if t.Attempt.Past == 0 { // else Forwarded is the first try's
			return max(r.FirstByte-r.Forwarded, 1)
		}
	}
	return 0
}

// unsent is what a call says of the backend where it did not start.
func (t *callState) unsent(err error) router.Outcome {
	switch {
	case t.crossing.ticket != "", t.Endpoint == nil:
		return router.Outcome{}
	case errors.Is(err, relay.ErrRefused):
		return router.Outcome{Class: router.Failed}
	case errors.Is(err, relay.ErrGoAway), errors.Is(err, relay.ErrQueueFull), errors.Is(err, relay.ErrClosed), ours(err):
		return router.Outcome{}
	}
	return router.Outcome{Class: router.Unreachable}
}

// ours says whether a connection could not be made because of this machine.
func ours(err error) bool {
	for _, local := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, local) {
			return true
		}
	}
	return false
}
