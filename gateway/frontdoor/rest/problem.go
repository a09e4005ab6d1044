package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/status"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// refusal is an error that the front door itself found.
type refusal struct {
	code   codes.Code
	status int // HTTP; 0: the status of code
	reason string
	detail string

	metadata map[string]string

	mayHaveRun bool // the call was made; else there was none
}

func (r *refusal) Error() string { return r.detail }

func noSuchPath() *refusal {
	return &refusal{code: codes.NotFound, status: http.StatusNotFound, reason: "NO_SUCH_PATH",
		detail: "there is nothing at this path; GET /openapi.json lists the paths, and /docs shows them"}
}

// ofAdminAPI reports whether a path is one of the admin API, which listens at another port.
func ofAdminAPI(path string) bool {
	for _, prefix := range []string{"/metrics", "/readyz", "/livez", "/debug/", "/v1/fleets", "/v1/backends", "/v1/limits"} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	return false
}

// noRoute answers a request that no route takes.
func (h *Handler) noRoute(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter,
	r *http.Request, httpStatus int) {
	if probeOf(r) != nil {
		return
	}
	switch httpStatus {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", strings.Join(h.allowed(r), ", "))
		h.writeRefusal(w, r, &refusal{code: codes.Unimplemented, status: httpStatus, reason: "METHOD_NOT_ALLOWED",
			detail: fmt.Sprintf("the path does not support the method %.16s; it supports %s", r.Method,
				strings.Join(h.allowed(r), ", "))})
	case http.StatusBadRequest:
		h.writeRefusal(w, r, &refusal{code: codes.InvalidArgument, status: httpStatus, reason: "INVALID_PATH",
			detail: "the path must begin with a slash"})
	default:
		refused := noSuchPath()
		if ofAdminAPI(r.URL.Path) {
			refused.detail = "this is a path of the admin API, which listens at another port: admin in the configuration"
		}
		h.writeRefusal(w, r, refused)
	}
}

// callFailed answers a request whose call failed, or whose body the decoder refused.
func (h *Handler) callFailed(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter,
	r *http.Request, err error) {
	if probeOf(r) != nil {
		return
	}
	if b, ok := r.Body.(*body); ok && b.failed != nil {
		h.fail(w, r, b.failed)
		return
	}
	if st, ok := grpcstatus.FromError(err); ok && st.Code() == codes.InvalidArgument && len(st.Details()) == 0 &&
		r.Method == http.MethodGet {
		h.writeRefusal(w, r, &refusal{code: codes.InvalidArgument, reason: "INVALID_QUERY",
			detail: "the query is invalid: " + st.Message()})
		return
	}
	h.fail(w, r, err)
}

// fail answers a request whose call failed.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	bodyOf(r.Context()).tellReplay(w.Header())
	var refused *refusal
	var failed toolFailure
	switch {
	case errors.As(err, &refused):
		h.writeRefusal(w, r, refused)
	case errors.As(err, &failed):
		problem.Write(w, r, failed.problem())
	case !awaitApproval(w, err):
		WriteProblem(w, r, err, h.status)
	}
}

// toolFailure is a tool's own error that is to be an HTTP status.
type toolFailure struct{ resp *capgatepb.InvokeResponse }

func (t toolFailure) Error() string { return t.resp.GetError() }

func (t toolFailure) problem() problem.Problem {
	p := problem.Own(http.StatusUnprocessableEntity, codes.Unknown, "TOOL_ERROR", t.resp.GetError())
	if result := t.resp.GetResultJson(); isText(result) {
		p.Result = result
	} else {
		p.ResultJSON = result
	}
	return p
}

// problemIn is the problem of a stream that has begun, as a record holds it.
func (h *Handler) problemIn(r *http.Request, err error) problem.Problem {
	var refused *refusal
	if errors.As(err, &refused) {
		return h.problemOf(refused).In(r)
	}
	return problem.Of(err, h.status).In(r)
}

// WriteProblem answers a request with the error of a gRPC call. httpStatus is the
// gateway's table of HTTP statuses for gRPC codes.
func WriteProblem(w http.ResponseWriter, r *http.Request, err error, httpStatus func(codes.Code) int) {
	p := problem.Of(err, httpStatus)
	tellQuota(w.Header(), err, &p)
	problem.Write(w, r, p)
}

// tellQuota writes the headers of the limit that rejected a call, if any.
func tellQuota(head http.Header, err error, p *problem.Problem) {
	if status.DetailsOf(err).Quota {
		tellLimit(head, p)
	}
}

func (h *Handler) writeRefusal(w http.ResponseWriter, r *http.Request, refused *refusal) {
	problem.Write(w, r, h.problemOf(refused))
}

func (h *Handler) problemOf(refused *refusal) problem.Problem {
	httpStatus := refused.status
	if httpStatus == 0 {
		httpStatus = h.status(refused.code)
	}
	p := problem.Own(httpStatus, refused.code, refused.reason, refused.detail)
	p.Metadata = refused.metadata
	if !refused.mayHaveRun {
		p = p.NotStarted()
	}
	return p
}
