package admin

import (
	"context"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
)

// refused responds to a request with a refusal.
func refused(w http.ResponseWriter, r *http.Request, refusal *call.Refusal) {
	w.Header().Set("Cache-Control", "no-store")
	problem.Write(w, r, problem.Of(status.Err(refusal)))
}

// failed returns a function that responds to a request with the error of a method. An error without details is not
// from a service: the request could not be parsed. services maps paths to services.
func failed(services map[string]*Service) runtime.ErrorHandlerFunc {
	return func(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request,
		err error) {
		of := serviceOf(ctx, services)
		of.setHeaders(w.Header())
		err = status.ErrOf(err, of.Fault)
		if st := grpcstatus.Convert(err); st.Code() == codes.InvalidArgument && len(st.Details()) == 0 {
			err = status.Err(unreadable(st.Message(), of.Unreadable))
		}
		rest.WriteProblem(w, r, err)
	}
}

// unrouted responds to a request that matches a pattern of http.ServeMux and no route, such as that of an unknown
// custom method.
func unrouted(ctx context.Context, mux *runtime.ServeMux, m runtime.Marshaler, w http.ResponseWriter,
	r *http.Request, code int) {
	switch refusal := guard.Unrouted(ctx); {
	case refusal != nil:
		refused(w, r, refusal)
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed:
		problem.Write(w, r, problem.NoSuchPath())
	default:
		runtime.DefaultRoutingErrorHandler(ctx, mux, m, w, r, code)
	}
}

// unreadable returns the refusal of a request that grpc-gateway cannot parse, by its error. own may be nil.
func unreadable(why string, own func(parameter string) *call.Refusal) *call.Refusal {
	parameter, query := problem.Parameter(why)
	if own != nil {
		if refusal := own(parameter); refusal != nil {
			return refusal
		}
	}
	if query {
		return &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_QUERY", Message: problem.WrongQuery(why)}
	}
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_BODY", Message: problem.WrongBody(why)}
}
