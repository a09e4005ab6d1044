package rest

import (
	"context"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"

	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Patterns of the routes that call tools.
const (
	invokePattern = "/v1/capabilities/{capability_id=*}/invoke"
	toolPattern   = "/v1/capabilities/{capability_id=*}/tools/{tool_name=*}"
	streamPattern = "/v1/capabilities/{capability_id=*}/stream"
	toolStream    = toolPattern + "/stream"
)

const threadID = "X-Thread-Id" // thread_id in messages

// routeCalls adds the routes of streams, which the generated code knows, but not how to serve.
func (h *Handler) routeCalls(conn grpc.ClientConnInterface) error {
	h.capabilities = docpb.NewCapabilityClient(inside{conn})
	for _, route := range []struct {
		method, pattern string
		serve           runtime.HandlerFunc
	}{
		{http.MethodPost, streamPattern, h.streamed(h.stream)},
		{http.MethodPost, toolStream, h.streamed(h.stream)},
		{http.MethodGet, toolStream, h.streamGot},
	} {
		if err := h.mux.HandlePath(route.method, route.pattern, route.serve); err != nil {
			return err
		}
	}
	return nil
}

// choose stands behind prepare. A call that may be answered whole or as a stream goes the way that its
// sender would rather have.
func (h *Handler) choose(next runtime.HandlerFunc) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		pattern, _ := runtime.HTTPPattern(r.Context())
		if p := pattern.String(); r.Method != http.MethodPost || p != invokePattern && p != toolPattern {
			next(w, r, params)
			return
		}
		w.Header().Add("Vary", "Accept")
		if f, _ := formWanted(r.Header, whole, orWhole()); f != whole {
			h.stream(w, r, params, f)
			return
		}
		bodyOf(r.Context()).asHTTP = h.errorsAs(w.Header(), r.Header)
		next(w, r, params)
	}
}

// streamed serves the paths that have nothing but streams.
func (h *Handler) streamed(serve func(http.ResponseWriter, *http.Request, map[string]string,
	form)) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		w.Header().Add("Vary", "Accept")
		f, ok := formWanted(r.Header, events, onlyStreams())
		if !ok {
			WriteProblem(w, r, notAcceptable())
			return
		}
		serve(w, r, params, f)
	}
}

// stream reads the request and answers it as a stream.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, params map[string]string, f form) {
	if again(w, r) {
		return
	}
	req, err := requestOf(r, params)
	if err != nil {
		h.fail(w, r, err)
		return
	}
	h.serveStream(w, r, f, req)
}

// again answers a request that wants to resume a broken stream: the call is not repeated. 204 makes an EventSource
// stop reconnecting (WHATWG HTML §9.2.3).
func again(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get(lastEventID) == "" && r.URL.Query().Get("last_event_id") == "" {
		return false
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// requestOf reads the call of a tool out of a request by the rules of its path.
func requestOf(r *http.Request, params map[string]string) (*docpb.InvokeRequest, error) {
	b := bodyOf(r.Context())
	if tool, ok := params["tool_name"]; ok {
		req := &capgatepb.CallToolRequest{CapabilityId: params["capability_id"], ToolName: tool}
		if err := decode(b, &req.Args); err != nil {
			return nil, err
		}
		query := r.URL.Query()
		req.SessionId, req.ThreadId = query.Get("session_id"), query.Get("thread_id")
		return toolCall(req, b.args, r.Header.Get(sessionID), r.Header.Get(threadID)), nil
	}
	req := new(capgatepb.InvokeRequest)
	if err := decode(b, req); err != nil {
		return nil, err
	}
	req.CapabilityId = params["capability_id"]
	return invocation(req), nil
}

// outgoing returns a request's context with the metadata of its headers.
func (h *Handler) outgoing(r *http.Request, method string) (context.Context, error) {
	return runtime.AnnotateContext(r.Context(), h.mux, r, method)
}
