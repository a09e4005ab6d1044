package forward

import "github.com/capgate/capgate/gateway/relay"

// The gRPC codes of this package's own answers (google.rpc.Code).
const (
	codeDeadlineExceeded  = 4
	codeResourceExhausted = 8
	codeInternal          = 13
	codeUnavailable       = 14
	codeUnauthenticated   = 16
)

// notStarted is the status of a call that did not reach a gateway. Selu repeats it, because of the word "connect". The
// text does not have the gateway's address, which is only in the log.
var notStarted = unstarted(codeUnavailable, "GATEWAY_UNREACHABLE",
	"cannot connect to the gateway; the call was not started")

// late is the status of a call that ran out of time before a gateway was reached.
var late = unstarted(codeDeadlineExceeded, "DEADLINE_EXCEEDED", "the call's deadline passed before it was started")

func unstarted(code uint32, reason, message string) relay.Status {
	return relay.Status{Code: code, Message: message, Details: details(code, reason, message)}
}

// lost is the status of a call that a gateway may have carried out.
var lost = mayHaveRun(codeUnavailable, "the gateway was lost during the call")

// mayHaveRun returns the status of a call that a gateway may have carried out. Its text must not contain "connect", and
// gRPC clients do not retry it by themselves.
func mayHaveRun(code uint32, what string) relay.Status {
	return relay.Status{Code: code, Message: what + "; the call may have been carried out", NoRetry: true}
}

// explain returns the answer for a failure that the relay found. sent says that the call has gone to a gateway.
func explain(f relay.Failure, sent bool, reset uint32) relay.Status {
	switch f {
	case relay.DeadlineExceeded:
		if !sent {
			return late
		}
		return mayHaveRun(codeDeadlineExceeded, "the call's deadline has passed")
	case relay.MemoryExceeded, relay.AccountExceeded:
		return mayHaveRun(codeResourceExhausted, "capgate forward holds too much that this call's reader has not read")
	case relay.UpstreamProtocol:
		return mayHaveRun(codeInternal, "the gateway broke the HTTP/2 protocol")
	case relay.UpstreamReset:
		return mayHaveRun(reset, "the gateway broke the call off")
	case relay.UpstreamNotGRPC:
		return mayHaveRun(reset, "the response is not gRPC: it comes from another server than the gateway")
	case relay.Panicked:
		return mayHaveRun(codeInternal, "capgate forward failed")
	case relay.Draining:
		if sent {
			return mayHaveRun(codeUnavailable, "capgate forward is stopping")
		}
	}
	if !sent {
		return notStarted
	}
	return lost
}
