package connect

import (
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
)

// refused is a rejection by the front door itself.
func refused(reason string, code connect.Code, format string, args ...any) *connect.Error {
	err := connect.NewError(code, fmt.Errorf(format, args...))
	addDetail(err, &errdetails.ErrorInfo{Reason: reason, Domain: problem.OwnDomain})
	return err
}

// errorOf is how a call of gRPC ended, which was not well.
func errorOf(err error) *connect.Error {
	st := status.Convert(err)
	code := st.Code()
	if code == codes.OK || code > codes.Unauthenticated { // it has no name
		code = codes.Unknown
	}
	failed := connect.NewError(connect.Code(code), errors.New(st.Message()))
	for _, d := range st.Proto().GetDetails() {
		addDetail(failed, d)
	}
	if code == codes.Unauthenticated {
		failed.Meta().Set("WWW-Authenticate", challengeOf(st))
	}
	return failed
}

// challengeOf always returns the gateway's own challenge: a browser would take a backend's challenge for the
// gateway's.
func challengeOf(st *status.Status) string {
	for _, d := range st.Details() {
		if info, is := d.(*errdetails.ErrorInfo); is && info.GetDomain() == problem.OwnDomain {
			return problem.Challenge(info.GetReason())
		}
	}
	return problem.Challenge("")
}

func addDetail(err *connect.Error, detail proto.Message) {
	if d, wrong := connect.NewErrorDetail(detail); wrong == nil {
		err.AddDetail(d)
	}
}
