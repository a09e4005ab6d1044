package connect

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

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

// said returns an error for the client.
func said(err error, p call.Progress) error {
	var r *call.Refusal
	if !errors.As(err, &r) {
		return err
	}
	return errorOf(status.Of(r, p).Err())
}

// rejected records a request that is rejected before its call, and returns the error for the client.
func rejected(ctx context.Context, err error) error {
	r := &call.Refusal{Kind: call.InvalidArgument}
	errors.As(err, &r)
	request.Rejected(ctx, status.CodeOf(r.Kind), r.Reason)
	return said(err, call.NotSent)
}

// errorOf returns the Connect error for the error of a gRPC call.
func errorOf(err error) *connect.Error {
	st := grpcstatus.Convert(err)
	code := st.Code()
	if code == codes.OK || code > codes.Unauthenticated { // the code has no name
		code = codes.Unknown
	}
	failed := connect.NewError(connect.Code(code), errors.New(st.Message()))
	for _, d := range st.Proto().GetDetails() {
		if detail, wrong := connect.NewErrorDetail(d); wrong == nil {
			failed.AddDetail(detail)
		}
	}
	if after := status.RetryAfter(status.DetailsOf(err).RetryAfter.Seconds()); after != "" {
		failed.Meta().Set("Retry-After", after)
	}
	// A browser would attribute a backend's challenge to the gateway.
	own := status.InfoOf(err)
	if challenge := status.Challenge(code, own.GetReason(), own.GetMetadata()); challenge != "" {
		failed.Meta().Set("WWW-Authenticate", challenge)
	}
	return failed
}
