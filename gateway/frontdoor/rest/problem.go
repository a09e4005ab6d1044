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

	"github.com/capgate/capgate/gateway/frontdoor/invocation"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
)

func noSuchPath() *call.Refusal {
	return &call.Refusal{Kind: call.NotFound, Reason: "NO_SUCH_PATH",
		Message: "there is nothing at this path; GET /openapi.json lists the paths, and /docs shows them"}
}

// misplacedPaths explains paths of another port or another server, and common mistakes.
var misplacedPaths = []struct{ prefix, text string }{ //nolint:gochecknoglobals // a table
	{"/metrics", adminPath}, {"/readyz", adminPath}, {"/livez", adminPath}, {"/debug/", adminPath},
	{"/v1/fleets", adminPath}, {"/v1/backends", adminPath}, {"/v1/limits", adminPath},
	{"/mcp/", toolsetPath}, {"/v1/mcp", mcpPath}, {"/MCP", mcpPath}, {"/.well-known/mcp", mcpPath},
	{"/sse", mcpNoSSE}, {"/mcp/sse", mcpNoSSE}, {"/message", mcpNoSSE},
}

const (
	adminPath = "this is a path of the admin API, which listens at another port: admin in the configuration"
	mcpPath   = "MCP is served at /mcp, without a trailing slash"
	// toolsetPath is for a path below /mcp that cannot be that of a toolset.
	toolsetPath = mcpPath + ", and a toolset at /mcp/NAME; NAME has 1 to 63 lower-case letters, digits, hyphens and " +
		"underscores, and begins with a letter or a digit"
	mcpNoSSE = "MCP is served at /mcp, as Streamable HTTP; its older transport, HTTP with SSE, is not served"
)

// noRoute responds to a request without a route.
func (h *Handler) noRoute(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter,
	r *http.Request, httpStatus int) {
	if probeOf(r) != nil {
		return
	}
	switch httpStatus {
	case http.StatusMethodNotAllowed:
		w.Header().Set("Allow", strings.Join(h.allowed(r), ", "))
		WriteProblem(w, r, &call.Refusal{Kind: call.Unimplemented, Reason: "METHOD_NOT_ALLOWED",
			Message: fmt.Sprintf("the path does not support the method %.16s; it supports %s", r.Method,
				strings.Join(h.allowed(r), ", "))})
	case http.StatusBadRequest:
		WriteProblem(w, r, &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_PATH",
			Message: "the path must begin with a slash"})
	default:
		refused := noSuchPath()
		for _, e := range misplacedPaths {
			if strings.HasPrefix(r.URL.Path, e.prefix) {
				refused.Message = e.text // the last one is the most specific
			}
		}
		WriteProblem(w, r, refused)
	}
}

// callFailed responds to a request whose call failed, or whose body the decoder rejected.
func (h *Handler) callFailed(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter,
	r *http.Request, err error) {
	if probeOf(r) != nil {
		return
	}
	if b, ok := r.Body.(*body); ok && b.failed != nil {
		h.fail(w, r, b.failed)
		return
	}
	if st, ok := grpcstatus.FromError(err); ok && st.Code() == codes.InvalidArgument && len(st.Details()) == 0 {
		WriteProblem(w, r, unreadable(st.Message()))
		return
	}
	h.fail(w, r, err)
}

// unreadable returns the refusal of a request that grpc-gateway cannot parse. For a body that it has read twice, only
// the text of the decoder's refusal is left.
func unreadable(why string) error {
	if body, is := strings.CutPrefix(why, invocation.InvalidBody+": "); is {
		return invocation.Invalid(body)
	}
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_QUERY", Message: problem.WrongQuery(why)}
}

// fail responds to a request whose call failed.
func (h *Handler) fail(w http.ResponseWriter, r *http.Request, err error) {
	var failed toolFailure
	switch {
	case errors.As(err, &failed):
		problem.Write(w, r, failed.problem())
	case !awaitApproval(w, err):
		WriteProblem(w, r, err)
	}
}

// toolFailure is a tool's own error that becomes an HTTP status.
type toolFailure struct {
	result []byte
	text   string
}

func (t toolFailure) Error() string { return t.text }

func (t toolFailure) problem() problem.Problem {
	p := problem.Own(http.StatusUnprocessableEntity, codes.Unknown, "TOOL_ERROR", t.text)
	if isText(t.result) {
		p.Result = t.result
	} else {
		p.ResultJSON = t.result
	}
	return p
}

// problemIn returns the problem for a record of a started stream.
func (h *Handler) problemIn(r *http.Request, err error) problem.Problem {
	return problem.Of(err).In(r)
}

// WriteProblem responds to a request with an error of a call or of the gateway.
func WriteProblem(w http.ResponseWriter, r *http.Request, err error) {
	p := problem.Of(err)
	tellQuota(w.Header(), err, &p)
	capability, tool := called(r.URL.Path)
	request.Named(r.Context(), capability, tool)
	problem.Write(w, r, p)
}

// called returns the capability and the tool that a path names; empty: none.
func called(path string) (capability, tool string) {
	rest, ok := strings.CutPrefix(path, capabilitiesPath)
	if !ok {
		return "", ""
	}
	capability, rest, _ = strings.Cut(rest, "/")
	if rest, ok = strings.CutPrefix(rest, toolsPath[1:]); ok {
		tool, _, _ = strings.Cut(rest, "/")
	} else if manifest.IsFeature(rest) {
		tool = rest
	}
	return capability, tool
}

// tellQuota sets the headers of the limit that rejected a call, if any.
func tellQuota(head http.Header, err error, p *problem.Problem) {
	if status.DetailsOf(err).Quota {
		tellLimit(head, p)
	}
}
