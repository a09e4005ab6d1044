package connect

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// Errors of messages.
var (
	errMalformed = errors.New("connect: malformed message")
	errTooLong   = errors.New("connect: the message is too long")
	errMissing   = errors.New("connect: there is no message")
)

// unread returns the error for the client of a request or message that cannot be read.
func (t *target) unread(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errTooLong): // also if there is no room for the rest: the request can never succeed
		t.body.discard()
		return refused("MESSAGE_TOO_LARGE", call.ResourceExhausted, "the message is longer than the gateway accepts")
	case t.body.failed != nil:
		return t.body.failed
	case errors.Is(err, errMissing):
		return refused("REQUEST_MISSING", call.InvalidArgument, "the call ended without a request message")
	case isLate(ctx, err):
		return refused("DEADLINE_EXCEEDED", call.DeadlineExceeded, "the call's deadline has passed")
	}
	return refused("REQUEST_MALFORMED", call.InvalidArgument,
		"the request is truncated, or its compression, encoding or envelopes do not match its headers")
}

// isLate reports whether a read has failed because of its deadline, or that of the call.
func isLate(ctx context.Context, err error) bool {
	return errors.Is(ctx.Err(), context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// checkHeader validates the headers of the protocol.
func checkHeader(r *http.Request, p protocol) error {
	coding, timeout, valid := "Grpc-Encoding", "Grpc-Timeout", func(v string) bool {
		_, ok := relay.ParseTimeout(v)
		return ok
	}
	switch p {
	case connectUnary, connectStream:
		coding, timeout, valid = "Connect-Content-Encoding", "Connect-Timeout-Ms", isMilliseconds
		if p == connectUnary {
			coding = "Content-Encoding"
		}
		if !isVersion(r) {
			return refused("METADATA_INVALID", call.InvalidArgument, "the header Connect-Protocol-Version must be 1")
		}
	case grpcWeb, grpcWebText, none:
	}
	if v := header.First(r.Header, coding); v != "" && v != "identity" && v != "gzip" {
		return refused("ENCODING_UNSUPPORTED", call.Unimplemented,
			"the header %s names a compression that the gateway does not support; it supports gzip", coding)
	}
	if v := header.First(r.Header, timeout); v != "" && !valid(v) {
		return refused("METADATA_INVALID", call.InvalidArgument, "the header %s is not a timeout", timeout)
	}
	return nil
}

// isMilliseconds reports whether a text is a timeout of Connect.
func isMilliseconds(v string) bool {
	_, ok := milliseconds(v)
	return ok
}

// milliseconds returns a timeout of Connect, which has at most 10 digits.
func milliseconds(v string) (timeout time.Duration, ok bool) {
	const digits = 10
	if v == "" {
		return 0, false
	}
	ms, err := strconv.ParseUint(v, 10, 63)
	return time.Duration(ms) * time.Millisecond, err == nil && len(v) <= digits
}

// isVersion reports whether a request of Connect has the version that the gateway supports.
func isVersion(r *http.Request) bool {
	v := header.First(r.Header, "Connect-Protocol-Version")
	return v == "" || v == "1"
}
