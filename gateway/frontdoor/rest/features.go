package rest

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/bodybudget"
	"github.com/capgate/capgate/gateway/frontdoor/invocation"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Features provides what MCP servers offer besides tools. The errors are gRPC statuses. *tools.Door implements it.
type Features interface {
	// PromptsOf returns the prompts of a capability that the caller of ctx may get.
	PromptsOf(ctx context.Context, capability string) ([]*manifest.Feature, error)
	// ResourcesOf returns the resources of a capability that the caller of ctx may read, and the templates of them.
	ResourcesOf(ctx context.Context, capability string) (resources, templates []*manifest.Feature, err error)
	// LacksPrompt reports whether a prompt of a capability is known not to exist, or the caller of ctx may not get it.
	LacksPrompt(ctx context.Context, capability, prompt string) (bool, error)
}

// Patterns of the routes of features. Without its capability, the path of a call is the name of the call for policies.
const (
	capabilityPattern = "/v1/capabilities/{capability_id=*}/"
	promptsPattern    = capabilityPattern + "prompts"
	promptPattern     = promptsPattern + "/{prompt_name=**}" // it may contain slashes
	resourcesPattern  = capabilityPattern + "resources"
	templatesPattern  = resourcesPattern + "/templates"
	readPattern       = capabilityPattern + manifest.ReadResource
)

// routeFeatures adds the routes of prompts and resources.
func (h *Handler) routeFeatures() error {
	for _, route := range []struct {
		method, pattern string
		serve           runtime.HandlerFunc
	}{
		{http.MethodGet, promptsPattern, h.listed("prompts", func(ctx context.Context, capability string) (
			[]*manifest.Feature, error) {
			return h.cfg.Features.PromptsOf(ctx, capability)
		})},
		{http.MethodGet, resourcesPattern, h.listed("resources", func(ctx context.Context, capability string) (
			[]*manifest.Feature, error) {
			resources, _, err := h.cfg.Features.ResourcesOf(ctx, capability)
			return resources, err
		})},
		{http.MethodGet, templatesPattern, h.listed("templates", func(ctx context.Context, capability string) (
			[]*manifest.Feature, error) {
			_, templates, err := h.cfg.Features.ResourcesOf(ctx, capability)
			return templates, err
		})},
		{http.MethodPost, promptPattern, h.prompt},
		{http.MethodGet, readPattern, h.resource},
	} {
		if err := h.mux.HandlePath(route.method, route.pattern, route.serve); err != nil {
			return err
		}
	}
	return nil
}

// entry is a feature in a list, with its name or URI as its id.
type entry struct{ *manifest.Feature }

// GetId returns what identifies the feature in its list.
func (e entry) GetId() string { //nolint:revive // the name of the method in messages
	if key := e.URI + e.Template; key != "" {
		return key
	}
	return e.Name
}

// listed serves a list of features. member is the name of the list in the response.
func (h *Handler) listed(member string, of func(ctx context.Context, capability string) ([]*manifest.Feature,
	error)) runtime.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request, params map[string]string) {
		page, next, err := h.page(r, params["capability_id"], of)
		if err != nil {
			WriteProblem(w, r, err)
			return
		}
		writeJSON(bodybudget.WriteTimeout(w, h.cfg.Stall), http.StatusOK,
			map[string]any{member: append([]entry{}, page...), "next_page_token": next})
	}
}

// page returns the requested page of a list, and its next_page_token.
func (h *Handler) page(r *http.Request, capability string, of func(ctx context.Context, capability string) (
	[]*manifest.Feature, error)) (page []entry, next string, err error) {
	asked := new(capgatepb.ListToolsRequest)
	if err := runtime.PopulateQueryParameters(asked, r.URL.Query(),
		utilities.NewDoubleArray([][]string{{"capability_id"}})); err != nil {
		return nil, "", unreadable(err.Error())
	}
	if h.cfg.Features == nil {
		return nil, "", noSuchPath()
	}
	features, err := of(r.Context(), capability)
	if err != nil {
		return nil, "", err
	}
	all := make([]entry, len(features))
	for i := range features {
		all[i] = entry{features[i]}
	}
	if page, next, err = Page(asked, all); err != nil {
		return nil, "", err
	}
	size := 0
	for i := range page {
		size += page[i].Length()
	}
	return page, next, request.HoldResult(r.Context(), listCopies*size)
}

// listCopies is the number of copies of a list while it is written.
const listCopies = 2

// prompt serves the call of a prompt.
func (h *Handler) prompt(w http.ResponseWriter, r *http.Request, params map[string]string) {
	name := params["prompt_name"]
	text, err := h.callPrompt(w, r, params["capability_id"], name)
	if err != nil {
		h.fail(w, r, hiding(err, unknownPrompt))
		return
	}
	h.writeFeature(w, text)
}

func (h *Handler) callPrompt(w http.ResponseWriter, r *http.Request, capability, name string) ([]byte, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, unread(err)
	}
	req := &docpb.InvokeRequest{CapabilityId: capability, ToolName: manifest.PromptPrefix + name}
	if req.ArgsJson, err = invocation.PromptArguments(text, bodyOfCall, invocation.InvalidBody); err != nil {
		return nil, err
	}
	if err = readQuery(r, req); err != nil {
		return nil, err
	}
	if manifest.CheckPrompt(name) != nil {
		return nil, unknownPrompt
	}
	if h.cfg.Features != nil {
		lacks, err := h.cfg.Features.LacksPrompt(r.Context(), capability, name)
		switch {
		case err != nil:
			return nil, err
		case lacks:
			return nil, unknownPrompt
		}
	}
	text, err = h.callFeature(w, r, req)
	if isUnknown(err) {
		return nil, unknownPrompt
	}
	return text, err
}

// isUnknown reports whether an MCP server does not have the feature of a call.
func isUnknown(err error) bool {
	return err != nil && status.InfoOf(err) == nil && grpcstatus.Code(err) == codes.NotFound
}

// callFeature makes the call of a feature, and returns the JSON of its result.
func (h *Handler) callFeature(w http.ResponseWriter, r *http.Request, req *docpb.InvokeRequest) ([]byte, error) {
	var trailer metadata.MD
	ctx := request.WithCall(outgoing(r), request.Call{IdempotencyKeys: r.Header.Values(idempotencyKey), Feature: true})
	req.ConfigJson = invocation.EmptyObject
	req.SessionId = cmp.Or(req.GetSessionId(), r.Header.Get(sessionID))
	req.ThreadId = cmp.Or(req.GetThreadId(), r.Header.Get(threadID))
	reply, err := h.capabilities.Invoke(ctx, req, grpc.MaxCallRecvMsgSize(MaxReply), grpc.Trailer(&trailer))
	if len(trailer.Get(replayed)) > 0 {
		w.Header().Set("Idempotency-Replayed", "true")
	}
	if err == nil && reply.GetError() != "" {
		err = grpcstatus.Error(codes.FailedPrecondition, reply.GetError())
	}
	return reply.GetResultJson(), err
}

// writeFeature responds with the result of a feature.
func (h *Handler) writeFeature(w http.ResponseWriter, text []byte) {
	w.Header()["Content-Type"], w.Header()["Content-Length"] = jsonType, []string{strconv.Itoa(len(text))}
	_, _ = bodybudget.WriteTimeout(w, h.cfg.Stall).Write(text) // fails only if the client has disconnected
}

// Refusals of features that do not exist, or that policy hides.
var (
	unknownPrompt = &call.Refusal{Kind: call.NotFound, Reason: "PROMPT_UNKNOWN",
		Message: "there is no such prompt, or a policy hides it; GET /v1/capabilities/{capability_id}/prompts lists " +
			"those that you may get"}
	unknownResource = &call.Refusal{Kind: call.NotFound, Reason: "RESOURCE_UNKNOWN",
		Message: "there is no such resource, or a policy hides it; GET /v1/capabilities/{capability_id}/resources " +
			"lists those that you may read"}
)

// hiding returns unknown for an error that would reveal the existence of a feature that policy hides.
func hiding(err error, unknown *call.Refusal) error {
	if status.InfoOf(err).GetReason() == "TOOL_BLOCKED" {
		return unknown
	}
	return err
}
