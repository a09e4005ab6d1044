package rest

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/capgate/capgate/gateway/frontdoor/cors"
	"github.com/capgate/capgate/gateway/frontdoor/invocation"
	"github.com/capgate/capgate/internal/call"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// streamGot serves the GET of an EventSource, which can send neither a body nor headers. Browsers, proxies and
// crawlers send GET requests on their own, and pages of other sites can make a browser send them. Therefore it only
// calls tools with event_source in the configuration, and rejects pages of other sites.
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
	f, ok := formWanted(r.Header, events, lines)
	if !ok {
		WriteProblem(w, r, notAcceptable())
		return
	}
	req := &docpb.InvokeRequest{CapabilityId: capability, ToolName: tool, ConfigJson: invocation.EmptyObject}
	if err := readQuery(r, req); err != nil {
		WriteProblem(w, r, err)
		return
	}
	w.Header().Add("Vary", "Accept")
	h.serveStream(w, r, f, req)
}

// notGot responds to the GET of a tool without event_source: with 405 to callers that may call the capability, and to
// others with the same error as for any call of it, which does not reveal whether it exists.
func (h *Handler) notGot(w http.ResponseWriter, r *http.Request, capability string) {
	if _, err := h.healthOf(r, capability); err != nil {
		h.fail(w, r, err)
		return
	}
	w.Header().Set("Allow", "POST, OPTIONS")
	WriteProblem(w, r, &call.Refusal{Kind: call.Unimplemented,
		Reason: "METHOD_NOT_ALLOWED",
		Message: "this tool cannot be called with GET, because event_source of its fleet does not list it; POST " +
			"its arguments"})
}

// ofAnotherSite rejects requests that a page of another site makes a browser send. Otherwise a visit of such a page
// could make calls with the visitor's client certificate, or at a gateway without tenants.
func ofAnotherSite(r *http.Request) *call.Refusal {
	if !cors.CrossSite(r) {
		return nil
	}
	return &call.Refusal{Kind: call.PermissionDenied, Reason: "CROSS_SITE",
		Message: "a page of another site may not call tools by GET"}
}

// readQuery parses the fields of a call in the query of its request, with GET also its arguments. Unknown parameters
// are an error only with GET.
func readQuery(r *http.Request, req *docpb.InvokeRequest) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return badQuery("it is not a list of names and values")
	}
	seen := map[*string]bool{}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		var to *string
		values, args := query[name], r.Method == http.MethodGet && name == "args"
		switch name {
		case "session_id", "sessionId":
			to = &req.SessionId
		case "thread_id", "threadId":
			to = &req.ThreadId
		}
		switch {
		case r.Method != http.MethodGet && to == nil:
		case len(values) > 1 || seen[to]:
			return badQuery(fmt.Sprintf("%.64q is there twice", name))
		case to != nil:
			*to, seen[to] = values[0], true
		case args:
			if req.ArgsJson, err = invocation.Arguments([]byte(values[0]), "args", invalidQuery); err != nil {
				return err
			}
		default:
			return badQuery(fmt.Sprintf("unknown parameter %.64q; the arguments are JSON in args", name))
		}
	}
	return nil
}

const invalidQuery = "INVALID_QUERY"

func badQuery(why string) *call.Refusal {
	return &call.Refusal{Kind: call.InvalidArgument, Reason: invalidQuery, Message: "the query is invalid: " + why}
}
