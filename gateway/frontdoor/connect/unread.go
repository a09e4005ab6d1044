package connect

import (
	"net/http"
	"strconv"

	"connectrpc.com/connect"

	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/internal/call"
)

// Errors of connect-go quote the request, and have no reason, so they are never sent.

// unread returns the error of a request or message that connect-go cannot read, by the code of connect-go's error.
func (t *target) unread(code connect.Code) error {
	switch {
	case t.body.failed != nil:
		return t.body.failed
	case code == connect.CodeDeadlineExceeded:
		return refused("DEADLINE_EXCEEDED", call.DeadlineExceeded, "the call's deadline has passed")
	case code == connect.CodeResourceExhausted:
		return refused("MESSAGE_TOO_LARGE", call.ResourceExhausted, "the message is longer than the gateway accepts")
	}
	return refused("REQUEST_MALFORMED", call.InvalidArgument,
		"the request is truncated, or its compression, encoding or envelopes do not match its headers")
}

// checkHeader validates the headers that connect-go would otherwise reject itself.
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
		if v := r.Header.Get("Connect-Protocol-Version"); v != "" && v != "1" {
			return refused("METADATA_INVALID", call.InvalidArgument, "the header Connect-Protocol-Version must be 1")
		}
	case grpcWeb, grpcWebText, none:
	}
	if v := r.Header.Get(coding); v != "" && v != "identity" && v != "gzip" {
		return refused("ENCODING_UNSUPPORTED", call.Unimplemented,
			"the header %s names a compression that the gateway does not support; it supports gzip", coding)
	}
	if v := r.Header.Get(timeout); v != "" && !valid(v) {
		return refused("METADATA_INVALID", call.InvalidArgument, "the header %s is not a timeout", timeout)
	}
	return nil
}

// isMilliseconds reports whether a text is a timeout of Connect.
func isMilliseconds(v string) bool {
	const digits = 10
	_, err := strconv.ParseUint(v, 10, 63)
	return err == nil && len(v) <= digits
}

// refuse rejects a request before its call.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, err error) {
	_ = h.errors.Write(w, r, rejected(r.Context(), err)) // an error means that the client has disconnected
}
