package connect

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// unsupportedType is the response to a request for a gRPC method whose body is of none of the protocols.
var unsupportedType = problem.Own(http.StatusUnsupportedMediaType, codes.InvalidArgument, "UNSUPPORTED_MEDIA_TYPE",
	"the path is that of a gRPC method, but the Content-Type is not: gRPC needs application/grpc; gRPC-Web "+
		"application/grpc-web; Connect application/proto, application/json or application/connect+proto").NotStarted()

// refused is a rejection by the front door itself, of a request that has become no call, or of a message of one.
func refused(reason string, code connect.Code, format string, args ...any) *refusal {
	return &refusal{reason, code, fmt.Errorf(format, args...)}
}

// refusal is what the front door itself rejects.
type refusal struct {
	reason string
	code   connect.Code
	why    error
}

func (r *refusal) Error() string { return r.why.Error() }

// said is an error as the client gets it. notStarted says that no backend has got anything of the call.
func said(err error, notStarted bool) error {
	var r *refusal
	if !errors.As(err, &r) {
		return err
	}
	info := &errdetails.ErrorInfo{Reason: r.reason, Domain: status.Domain}
	if notStarted {
		info.Metadata = map[string]string{call.NotStarted: "true"}
	}
	out := connect.NewError(r.code, r.why)
	addDetail(out, info)
	return out
}

// rejected records a request that has become no call, and returns its error as the client gets it.
func rejected(ctx context.Context, err error) error {
	r := &refusal{code: connect.CodeInvalidArgument}
	errors.As(err, &r)
	frontdoor.Rejected(ctx, codes.Code(r.code), r.reason)
	return said(err, true)
}

// errorOf is how a call of gRPC ended, which was not well.
func errorOf(err error) *connect.Error {
	st := grpcstatus.Convert(err)
	code := st.Code()
	if code == codes.OK || code > codes.Unauthenticated { // it has no name
		code = codes.Unknown
	}
	failed := connect.NewError(connect.Code(code), errors.New(st.Message()))
	for _, d := range st.Proto().GetDetails() {
		addDetail(failed, d)
	}
	if code == codes.Unauthenticated {
		// A browser would take a backend's challenge for the gateway's.
		failed.Meta().Set("WWW-Authenticate", status.Challenge(status.InfoOf(err).GetReason()))
	}
	return failed
}

func addDetail(err *connect.Error, detail proto.Message) {
	if d, wrong := connect.NewErrorDetail(detail); wrong == nil {
		err.AddDetail(d)
	}
}
