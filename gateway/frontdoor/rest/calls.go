package rest

import (
	"cmp"
	"io"
	"net/http"
	"strconv"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/capgate/capgate/gateway/frontdoor/header"
	"github.com/capgate/capgate/gateway/frontdoor/invocation"
	"github.com/capgate/capgate/internal/lib/strictjson"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Patterns of the routes of capgate.v1.Gateway.
const (
	invokePattern = "/v1/capabilities/{capability_id=*}/invoke"
	toolPattern   = "/v1/capabilities/{capability_id=*}/tools/{tool_name=*}"
	streamPattern = "/v1/capabilities/{capability_id=*}/stream"
	healthPattern = "/v1/capabilities/{capability_id=*}/health"
	toolStream    = toolPattern + "/stream"
)

const threadID = "X-Thread-Id" // thread_id in messages

// MaxReply is the maximum size of a capability's response, in bytes.
const MaxReply = 16 << 20

// routeCalls adds the routes of capgate.v1.Gateway. No code uses the messages of that service: calls have those of
// capabilities.
func (h *Handler) routeCalls(conn grpc.ClientConnInterface) error {
	h.capabilities = docpb.NewCapabilityClient(conn)
	for _, route := range []struct {
		method, pattern string
		serve           runtime.HandlerFunc
	}{
		{http.MethodPost, invokePattern, h.invoked},
		{http.MethodPost, toolPattern, h.invoked},
		{http.MethodGet, healthPattern, h.health},
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

// invoked serves the paths whose responses are whole or streamed, as the client prefers.
func (h *Handler) invoked(w http.ResponseWriter, r *http.Request, params map[string]string) {
	w.Header().Add("Vary", "Accept")
	if f, _ := formWanted(r.Header, whole); f != whole {
		h.stream(w, r, params, f)
		return
	}
	asHTTP := h.errorsAs(w.Header(), r.Header)
	req, err := requestOf(r, params)
	if err == nil {
		err = h.serveWhole(w, r, req, &directCall{tool: params["tool_name"]}, asHTTP)
	}
	if err != nil {
		h.fail(w, r, err)
	}
}

// serveWhole makes one tool call and responds with its result.
func (h *Handler) serveWhole(w http.ResponseWriter, r *http.Request, req *docpb.InvokeRequest, d *directCall,
	asHTTP bool) error {
	var trailer metadata.MD
	reply, err := h.capabilities.Invoke(outgoing(r), req, grpc.MaxCallRecvMsgSize(MaxReply), grpc.Trailer(&trailer))
	if len(r.Header.Values(idempotencyKey)) > 0 && len(trailer.Get(replayed)) > 0 {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	switch {
	case err != nil:
		return err
	case reply.GetError() != "" && asHTTP:
		return toolFailure{reply.GetResultJson(), reply.GetError()}
	}
	return d.answer(r.Context(), w, reply.GetResultJson(), reply.GetError())
}

// streamed serves the paths that only stream.
func (h *Handler) streamed(serve func(http.ResponseWriter, *http.Request, map[string]string,
	form)) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		w.Header().Add("Vary", "Accept")
		f, ok := formWanted(r.Header, events, lines)
		if !ok {
			WriteProblem(w, r, notAcceptable())
			return
		}
		serve(w, r, params, f)
	}
}

// stream parses the request and streams the response.
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

// again responds to a request to resume a broken stream: the call is not repeated. 204 makes an EventSource stop
// reconnecting (WHATWG HTML §9.2.3).
func again(w http.ResponseWriter, r *http.Request) bool {
	if r.Header.Get(lastEventID) == "" && r.URL.Query().Get("last_event_id") == "" {
		return false
	}
	w.WriteHeader(http.StatusNoContent)
	return true
}

// bodyOfCall names the body of a request in errors.
const bodyOfCall = "the body"

// requestOf returns the tool call of a request, by the rules of its path.
func requestOf(r *http.Request, params map[string]string) (*docpb.InvokeRequest, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, unread(err)
	}
	req := &docpb.InvokeRequest{CapabilityId: params["capability_id"], ToolName: params["tool_name"],
		ConfigJson: invocation.EmptyObject}
	if req.GetToolName() != "" {
		if req.ArgsJson, err = invocation.Arguments(text, bodyOfCall, invocation.InvalidBody); err == nil {
			err = readQuery(r, req)
		}
		req.SessionId = cmp.Or(req.GetSessionId(), r.Header.Get(sessionID))
		req.ThreadId = cmp.Or(req.GetThreadId(), r.Header.Get(threadID))
		return req, err
	}
	reader := strictjson.Get()
	defer reader.Release()
	c, err := invocation.Read(reader, text, req.GetCapabilityId())
	req.ToolName, req.ArgsJson, req.ConfigJson = string(c.Tool), c.Args, c.Config
	req.SessionId, req.ThreadId = string(c.Session), string(c.Thread)
	return req, err
}

// health responds with the health of a capability.
func (h *Handler) health(w http.ResponseWriter, r *http.Request, params map[string]string) {
	reply, err := h.healthOf(r, params["capability_id"])
	var text []byte
	if err == nil {
		text, err = encodeMessage(reply)
	}
	if err != nil {
		h.fail(w, r, err)
		return
	}
	w.Header()["Content-Type"] = jsonType
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	_, _ = w.Write(text) // the client may have disconnected
}

// healthOf requests the health of a capability, which the gateway itself returns.
func (h *Handler) healthOf(r *http.Request, capability string) (*docpb.HealthResponse, error) {
	if !header.IsASCII(capability) { // no such capability; the name is invalid in metadata
		return nil, noSuchPath()
	}
	return h.capabilities.Healthcheck(metadata.AppendToOutgoingContext(outgoing(r), "x-capability-id", capability),
		&docpb.HealthRequest{})
}
