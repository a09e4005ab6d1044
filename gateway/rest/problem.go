package rest

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// problem is an error as RFC 9457 has it.
type problem struct {
	Type       string            `json:"type"`
	Title      string            `json:"title"`
	Status     int               `json:"status"`
	Detail     string            `json:"detail,omitempty"`
	Code       string            `json:"code"`                  // the gRPC code, like INVALID_ARGUMENT
	Reason     string            `json:"reason,omitempty"`      // google.rpc.ErrorInfo.reason
	Metadata   map[string]string `json:"metadata,omitempty"`    // google.rpc.ErrorInfo.metadata
	RetryAfter float64           `json:"retry_after,omitempty"` // seconds, from google.rpc.RetryInfo
	Result     json.RawMessage   `json:"result,omitempty"`      // of a tool that failed, as in InvokeResponse
	ResultJSON []byte            `json:"result_json,omitempty"`
}

// refusal is an error that the front door itself found.
type refusal struct {
	code   codes.Code
	status int // HTTP; 0 means what the table has for code
	reason string
	detail string
}

func (r *refusal) Error() string { return r.detail }

func noSuchPath() *refusal {
	return &refusal{code: codes.NotFound, status: http.StatusNotFound, reason: "NO_SUCH_PATH", detail: "there is nothing at this path"}
}

// noRoute answers a request that no route takes.
func (h *Handler) noRoute(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, httpStatus int) {
	if probeOf(r) != nil {
		return
	}
	switch httpStatus {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", strings.Join(h.allowed(r), ", "))
		h.writeRefusal(w, r, &refusal{code: codes.Unimplemented, status: httpStatus, reason: "METHOD_NOT_ALLOWED",
			detail: "this path has no such method; the Allow header says which it has"})
	case http.StatusBadRequest:
		h.writeRefusal(w, r, &refusal{code: codes.InvalidArgument, status: httpStatus, reason: "INVALID_PATH", detail: "the path must begin with a slash"})
	default:
		h.writeRefusal(w, r, noSuchPath())
	}
}

// callFailed answers a request whose call failed, or whose body the decoder refused.
func (h *Handler) callFailed(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	if probeOf(r) != nil {
		return
	}
	if b, ok := r.Body.(*body); ok && b.refused != nil {
		h.writeRefusal(w, r, b.refused)
		return
	}
	if st, ok := status.FromError(err); ok && st.Code() == codes.InvalidArgument && len(st.Details()) == 0 && r.Method == http.MethodGet {
		h.writeRefusal(w, r, &refusal{code: codes.InvalidArgument, reason: "INVALID_QUERY", detail: "the query is not what is wanted: " + st.Message()})
		return
	}
	h.fail(w, r, err)
}

// fail answers a request whose call failed.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	var refused *refusal
	var failed toolFailure
	switch {
	case errors.As(err, &refused):
		h.writeRefusal(w, r, refused)
	case errors.As(err, &failed):
		writeProblem(w, r, failed.problem())
	case !awaitApproval(w, err):
		WriteProblem(w, r, err, h.status)
	}
}

// toolFailure is a tool's own error that is to be an HTTP status.
type toolFailure struct{ resp *capgatepb.InvokeResponse }

func (t toolFailure) Error() string { return t.resp.GetError() }

func (t toolFailure) problem() problem {
	p := problem{Status: http.StatusUnprocessableEntity, Detail: t.resp.GetError(), Code: code.Code_UNKNOWN.String(), Reason: "TOOL_ERROR"}
	if result := t.resp.GetResultJson(); isText(result) {
		p.Result = result
	} else {
		p.ResultJSON = result
	}
	return p
}

// problemIn is the problem of a stream that has begun, as a record holds it.
func (h *Handler) problemIn(_ *http.Request, err error) problem {
	var refused *refusal
	if errors.As(err, &refused) {
		return h.problemOf(refused).titled()
	}
	return problemOf(err, h.status).titled()
}

// WriteProblem answers a request with the error of a gRPC call. httpStatus is the
// gateway's table of HTTP statuses for gRPC codes.
func WriteProblem(w http.ResponseWriter, r *http.Request, err error, httpStatus func(codes.Code) int) {
	p := problemOf(err, httpStatus)
	tellQuota(w.Header(), err, &p)
	writeProblem(w, r, p)
}

// tellQuota says which limit refused a call, if one did.
func tellQuota(head http.Header, err error, p *problem) {
	for _, d := range status.Convert(err).Details() {
		if _, quota := d.(*errdetails.QuotaFailure); quota {
			tellLimit(head, p)
		}
	}
}

func problemOf(err error, httpStatus func(codes.Code) int) problem {
	st := status.Convert(err)
	p := problem{Status: httpStatus(st.Code()), Detail: st.Message(), Code: code.Code(st.Code()).String()}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			p.Reason, p.Metadata = d.GetReason(), d.GetMetadata()
		case *errdetails.RetryInfo:
			p.RetryAfter = max(d.GetRetryDelay().AsDuration(), 0).Seconds()
		}
	}
	return p
}

func (h *Handler) writeRefusal(w http.ResponseWriter, r *http.Request, refused *refusal) {
	writeProblem(w, r, h.problemOf(refused))
}

func (h *Handler) problemOf(refused *refusal) problem {
	p := problem{Status: refused.status, Detail: refused.detail, Code: code.Code(refused.code).String(), Reason: refused.reason}
	if p.Status == 0 {
		p.Status = h.status(refused.code)
	}
	return p
}

// titled is p with what follows from its status.
func (p problem) titled() problem {
	if p.Status < 400 || p.Status > 599 {
		p.Status = http.StatusInternalServerError
	}
	p.Type, p.Title = "about:blank", http.StatusText(p.Status) // RFC 9457 §4.2.1
	if p.Title == "" {
		p.Title = "Client Closed Request" // 499, which has no entry in the standard's table
	}
	return p
}

// writeProblem sends p.
func writeProblem(w http.ResponseWriter, r *http.Request, p problem) {
	p = p.titled()
	out, err := plainJSON(p)
	if err != nil {
		out = []byte(`{"type":"about:blank","title":"Internal Server Error","status":500,"code":"INTERNAL"}`)
		p.Status = http.StatusInternalServerError
	}
	out = append(out, '\n')
	head := w.Header()
	head.Set("Content-Type", "application/problem+json")
	head.Set("Content-Length", strconv.Itoa(len(out)))
	if p.RetryAfter > 0 {
		head.Set("Retry-After", strconv.FormatFloat(math.Ceil(p.RetryAfter), 'f', 0, 64))
	}
	if p.Status == http.StatusUnauthorized {
		challenge := "Bearer" // RFC 9110 §15.5.2 asks for one
		if p.Reason == "CREDENTIAL_INVALID" || p.Reason == "CREDENTIAL_EXPIRED" {
			challenge = `Bearer error="invalid_token"` // RFC 6750 §3.1
		}
		head.Set("WWW-Authenticate", challenge)
	}
	w.WriteHeader(p.Status)
	if r.Method == http.MethodHead {
		return
	}
	_, _ = w.Write(out) // the client may be gone; there is nobody left to tell
}
