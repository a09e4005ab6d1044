package connect

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// unsupportedType is the response to a request for a gRPC method whose content type is of none of the protocols.
var unsupportedType = problem.Own(http.StatusUnsupportedMediaType, codes.InvalidArgument, "UNSUPPORTED_MEDIA_TYPE",
	"the path is that of a gRPC method, but the Content-Type is not: gRPC needs application/grpc; gRPC-Web "+
		"application/grpc-web+proto or application/grpc-web-text; Connect application/proto or application/json, and "+
		"application/connect+proto or application/connect+json for methods with streams; the charset of JSON is utf-8").
	NotStarted()

// accepted is the Accept-Post header of such a response (RFC 5789, and connect-go).
const accepted = "application/grpc, application/grpc-web, application/grpc-web+proto, application/grpc-web-text, " +
	"application/grpc-web-text+proto, application/proto, application/json, application/connect+proto, " +
	"application/connect+json"

// refuseType rejects a request with an unsupported content type.
func (t *target) refuseType(w http.ResponseWriter, r *http.Request) {
	t.abandon(w, r)
	w.Header().Set("Accept-Post", accepted)
	problem.Write(w, r, unsupportedType)
}

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
	t.abandon(w, r)
	failed := rejected(r.Context(), err)
	if t.protocol == connectUnary || !t.isWeb() && !isVersion(r) { // the other version may have no streams
		failed.writeUnary(w)
		return
	}
	out := &reply{w: w, web: t.isWeb()}
	w.Header()["Content-Type"] = []string{t.typ}
	_ = out.end(failed, nil) // an error means that the client has disconnected
}

// reject is refuse for a request with envelopes whose headers are valid.
func (t *target) reject(w http.ResponseWriter, r *http.Request, err error) {
	t.abandon(w, r)
	_ = newReply(w, t).end(rejected(r.Context(), err), nil) // an error means that the client has disconnected
}

// abandon prepares a response before the end of the request.
func (t *target) abandon(w http.ResponseWriter, r *http.Request) {
	if t.body == nil || !t.body.ended {
		bodybudget.Abandon(w, r)
	}
}
