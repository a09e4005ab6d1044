package rest

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/capgate/capgate/gateway/frontdoor/cors"
	"github.com/capgate/capgate/internal/call"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// streamGot answers the GET of an EventSource, which can send neither a body nor headers. Browsers, proxies and
// crawlers send GET requests unasked, and pages of other sites can make a browser send them. Therefore it calls
// only tools with event_source in the configuration, and rejects pages of other sites.
func (h *Handler) streamGot(w http.ResponseWriter, r *http.Request, params map[string]string) {
	if again(w, r) {
		return
	}
	capability, tool := params["capability_id"], params["tool_name"]
	if !h.cfg.EventSource(capability, tool) {
		h.notGot(w, r, capability)
		return
	}
	if refused := ofAnotherSite(r); refused != nil {
		WriteProblem(w, r, refused)
		return
	}
	f, ok := formWanted(r.Header, events, onlyStreams())
	if !ok {
		WriteProblem(w, r, notAcceptable())
		return
	}
	req, refused := callInQuery(r.URL.Query())
	if refused != nil {
		WriteProblem(w, r, refused)
		return
	}
	req.CapabilityId, req.ToolName = capability, tool
	w.Header().Add("Vary", "Accept")
	h.serveStream(w, r, f, req)
}

// notGot answers the GET of a tool without event_source: 405 to callers that may call the capability, and to
// others the same error as any call of it, so that they do not learn whether it exists.
func (h *Handler) notGot(w http.ResponseWriter, r *http.Request, capability string) {
	ctx, err := h.outgoing(r, docpb.Capability_Healthcheck_FullMethodName)
	if err == nil {
		_, err = healthOf(ctx, h.capabilities, capability)
	}
	if err != nil {
		h.fail(w, r, err)
		return
	}
	w.Header().Set("Allow", "POST, OPTIONS")
	WriteProblem(w, r, &call.Refusal{Kind: call.Unimplemented,
		Reason:  "METHOD_NOT_ALLOWED",
		Message: "this tool is not called by GET, as event_source of its fleet does not name it; POST its arguments"})
}

// ofAnotherSite rejects requests that a browser sends for a page of another site. Otherwise a visit of such a page
// could make calls with the visitor's client certificate, or at a gateway without tenants.
func ofAnotherSite(r *http.Request) *call.Refusal {
	if !cors.CrossSite(r) {
		return nil
	}
	return &call.Refusal{Kind: call.PermissionDenied, Reason: "CROSS_SITE",
		Message: "a page of another site may not call tools by GET"}
}

// callInQuery reads the call of a tool out of a query.
func callInQuery(query url.Values) (*docpb.InvokeRequest, *call.Refusal) {
	req := &docpb.InvokeRequest{ConfigJson: []byte("{}")}
	for name, values := range query {
		value := values[0]
		switch {
		case len(values) > 1:
			return nil, badQuery(fmt.Sprintf("%.64q is there twice", name))
		case name == "args":
			args, err := objectOf([]byte(value))
			if err != nil {
				return nil, badQuery("args: " + strings.Replace(err.Error(), "the body ", "it ", 1))
			}
			req.ArgsJson = args
		case name == "session_id":
			req.SessionId = value
		case name == "thread_id":
			req.ThreadId = value
		default:
			return nil, badQuery(fmt.Sprintf("unknown parameter %.64q; the arguments are JSON in args", name))
		}
	}
	return req, nil
}

func badQuery(why string) *call.Refusal {
	return &call.Refusal{Kind: call.InvalidArgument, Reason: "INVALID_QUERY", Message: "the query is invalid: " + why}
}
