package admin

import (
	"context"
	"net/http"
	"path"
	"regexp"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/admin/guard"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/call"
)

// errorsInJSON writes the errors of JSON routes.
type errorsInJSON struct {
	status  func(*call.Refusal) *status.Status
	queries map[string]func(parameter string) *call.Refusal // by service
}

func (e *errorsInJSON) refused(w http.ResponseWriter, r *http.Request, refusal *call.Refusal) {
	w.Header().Set("Cache-Control", "no-store")
	problem.Write(w, r, problem.Of(e.status(refusal).Err()))
}

// failed answers a request with the error of a method. An error without details is not from a service: the request
// could not be parsed.
func (e *errorsInJSON) failed(ctx context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter,
	r *http.Request, err error) {
	err = StatusOf(err, e.status)
	if st := status.Convert(err); st.Code() == codes.InvalidArgument && len(st.Details()) == 0 {
		method, _ := runtime.RPCMethod(ctx)
		err = e.status(unreadable(st.Message(), e.queries[path.Dir(method)])).Err()
	}
	rest.WriteProblem(w, r, err)
}

// unrouted answers a request that matches a pattern of http.ServeMux and no route, such as that of an unknown custom
// method.
func (e *errorsInJSON) unrouted(ctx context.Context, mux *runtime.ServeMux, m runtime.Marshaler, w http.ResponseWriter,
	r *http.Request, code int) {
	switch refusal := guard.Unrouted(ctx); {
	case refusal != nil:
		e.refused(w, r, refusal)
	case code == http.StatusNotFound, code == http.StatusMethodNotAllowed:
		problem.Write(w, r, problem.NoSuchPath())
	default:
		runtime.DefaultRoutingErrorHandler(ctx, mux, m, w, r, code)
	}
}

// ofQuery finds the parameter in an error of grpc-gateway.
var ofQuery = regexp.MustCompile(`^parsing field "([a-z_]+)": `)

// unreadable is the refusal of a request that grpc-gateway cannot read, by its error. query may be nil.
func unreadable(why string, query func(string) *call.Refusal) *call.Refusal {
	if field := ofQuery.FindStringSubmatch(why); field != nil {
		if query != nil {
			if refusal := query(field[1]); refusal != nil {
				return refusal
			}
		}
		return &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_QUERY",
			Message: "the query is invalid: the value of " + field[1] + " has the wrong type"}
	}
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_BODY",
		Message: "the body is invalid: " + problem.WithoutValue(why)}
}
