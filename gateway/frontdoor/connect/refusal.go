package connect

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// unsupportedType is the response to a request for a gRPC method whose content type is of none of the protocols.
var unsupportedType = problem.Own(http.StatusUnsupportedMediaType, codes.InvalidArgument, "UNSUPPORTED_MEDIA_TYPE",
	"the path is that of a gRPC method, but the Content-Type is not: gRPC needs application/grpc; gRPC-Web "+
		"application/grpc-web+proto or application/grpc-web-text; Connect application/proto or application/json, and "+
		"application/connect+proto or application/connect+json for methods with streams").NotStarted()

// refused returns a rejection by the front door, of a request before its call, or of a message.
func refused(reason string, kind call.Kind, format string, args ...any) error {
	return &call.Refusal{Kind: kind, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// rejected records a request that is rejected before its call, and returns the error for the client.
func rejected(ctx context.Context, err error) *failure {
	r := &call.Refusal{Kind: call.InvalidArgument}
	errors.As(err, &r)
	request.Rejected(ctx, status.CodeOf(r.Kind), r.Reason)
	return failureOf(err, call.NotSent)
}

// refuse rejects a request before its call.
func (t *target) refuse(w http.ResponseWriter, r *http.Request, err error) {
	failed := rejected(r.Context(), err)
	if t.protocol == connectUnary || !t.isWeb() && !isVersion(r) { // the other version may have no streams
		failed.writeUnary(w)
		return
	}
	a := &reply{w: w, web: t.isWeb()}
	w.Header()["Content-Type"] = []string{t.typ}
	_ = a.end(failed, nil) // an error means that the client has disconnected
}
