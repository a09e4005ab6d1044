package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/manifest"
)

// Features provides what MCP servers offer besides tools. A call of a feature is the call of a tool with a name that no
// tool has, see manifest.IsFeature.
type Features interface {
	// Prompts returns the prompts that the caller of ctx may get, by capability, in the order of ids. The error is a
	// gRPC status. If wait is true, it may wait a moment for lists that are not known yet; otherwise they are left out.
	Prompts(ctx context.Context, wait bool) ([]Offer, error)
	// Prompt reports whether the prompts of a capability are known, and whether the caller of ctx may get one. Prompts
	// that are not known may exist. It requests nothing of other capabilities.
	Prompt(ctx context.Context, capability, prompt string) (known, may bool, err error)
	// Resources is Prompts for resources and templates of them. A capability whose lists are not known has an offer.
	Resources(ctx context.Context, wait bool) ([]Offer, error)
	// Has reports, from memory, whether the caller of ctx sees a capability, and it is one of MCP servers.
	Has(ctx context.Context, capability string) bool
	// Updates reports whether the caller of ctx may get updates of the resources of a capability. The error means that
	// the rules are unavailable.
	Updates(ctx context.Context, capability string) (bool, error)
}

// Offer holds features of a capability.
type Offer struct {
	Capability           string
	Prompts              []*manifest.Feature
	Reads                bool // the caller may read resources, also those that are not listed
	Unknown              bool // the lists of resources and templates are not known
	Resources, Templates []*manifest.Feature
	URIs                 *manifest.URIs // of Resources and Templates; nil if they are not known
}

// isFeatureCall reports whether a method calls a feature.
func isFeatureCall(method string) bool {
	switch method {
	case promptsGet, manifest.ReadResource, manifest.Complete:
		return true
	}
	return false
}

// features returns the function that serves a request about features; nil means that it is not about features.
func (h *Handler) features(req sdk.Request) func(context.Context) (sdk.Result, error) {
	if h.cfg.Features == nil {
		return nil
	}
	switch req := req.(type) {
	case *sdk.ListPromptsRequest:
		return func(ctx context.Context) (sdk.Result, error) { return h.listPrompts(ctx, req) }
	case *sdk.GetPromptRequest:
		return func(ctx context.Context) (sdk.Result, error) { return h.getPrompt(ctx, req) }
	case *sdk.ListResourcesRequest:
		return func(ctx context.Context) (sdk.Result, error) { return h.listResources(ctx, req) }
	case *sdk.ListResourceTemplatesRequest:
		return func(ctx context.Context) (sdk.Result, error) { return h.listTemplates(ctx, req) }
	case *sdk.ReadResourceRequest:
		return func(ctx context.Context) (sdk.Result, error) { return h.readResource(ctx, req) }
	case *sdk.CompleteRequest:
		return func(ctx context.Context) (sdk.Result, error) { return h.complete(ctx, req) }
	}
	return nil
}

// newFeature returns the call of a feature with the metadata of a request.
func (h *Handler) newFeature(x *exchange, capability, name string, args []byte) (*invocation, error) {
	i, err := h.newInvocation(x, capability, name, args)
	if err == nil {
		i.feature, i.results = true, Results{Relayed: true}
	}
	return i, err
}

// callFeature makes the call of a feature. The result is for a client that must act first; if it is nil, the JSON of
// the feature's result is returned.
func (h *Handler) callFeature(ctx context.Context, i *invocation) ([]byte, sdk.Result, error) {
	problem.Called(ctx)
	reply, asked, err := h.approve(ctx, i)
	switch {
	case asked != nil || err != nil:
		return nil, asked, err
	case i.requestsInput():
		asked, err = i.input()
		return nil, asked, err
	case reply.GetError() != "":
		return nil, nil, grpcstatus.Error(codes.FailedPrecondition, reply.GetError())
	}
	if err := request.HoldResult(ctx, featureCopies*len(reply.GetResultJson())); err != nil {
		return nil, nil, err
	}
	return reply.GetResultJson(), nil, nil
}

// featureCopies is the number of copies of a feature's result that exist at once, besides the message of the call.
const featureCopies = relayedCopies + sdkCopies

// isHidden reports whether an error would reveal the existence of a feature that policy hides.
func isHidden(err error) bool { return status.InfoOf(err).GetReason() == toolBlocked }

// isAbsent reports whether policy hides a feature, or its MCP server does not have it.
func isAbsent(err error) bool {
	return err != nil && (isHidden(err) || status.InfoOf(err) == nil && grpcstatus.Code(err) == codes.NotFound)
}

// featureResult is the result of the call of a feature. Its members are those of the server.
type featureResult struct {
	sdk.ResultBase
	ResultType  string          `json:"resultType,omitempty"`
	Description json.RawMessage `json:"description,omitempty"`
	Messages    json.RawMessage `json:"messages,omitempty"`
	Contents    json.RawMessage `json:"contents,omitempty"`
	Completion  json.RawMessage `json:"completion,omitempty"`
	TTLMs       *int            `json:"ttlMs,omitempty"`
	CacheScope  string          `json:"cacheScope,omitempty"`
}

// newFeatureResult returns the result of a feature's call.
func newFeatureResult(text []byte, stateless bool) (*featureResult, error) {
	var of struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	r := new(featureResult)
	if strictjson.Unmarshal(text, r) != nil || strictjson.Unmarshal(text, &of) != nil {
		return nil, grpcstatus.Error(codes.Internal, "the result of the MCP server cannot be read")
	}
	r.Meta, r.ResultType = nil, ""
	for key, value := range of.Meta {
		if r.Meta == nil {
			r.Meta = sdk.Meta{}
		}
		r.Meta[key] = value
	}
	if stateless {
		r.ResultType = "complete"
	}
	return r, nil
}

// pageFeatures is the maximum number of features on a page.
const pageFeatures = 500

// featurePage is a page of features, which a client requests with a cursor.
type featurePage struct {
	after string // cursor of the page before; empty means the first page
	begun bool   // the features of the pages before were skipped
	items []*manifest.Feature
	bytes int
	last  string
	next  string // cursor of the next page; empty means this is the last page
}

// cursorOf returns the cursor of the page after a feature. It is not secret, see place.cursor.
func cursorOf(capability, key string) string {
	sum := sha256.Sum256([]byte(key))
	return base64.RawURLEncoding.EncodeToString(append([]byte(capability+"\n"), sum[:]...))
}

// add adds a feature, which form returns in the form for the client. It returns false if the page is full. key
// identifies it in the capability.
func (p *featurePage) add(capability, key string, form func() *manifest.Feature) bool {
	cursor := cursorOf(capability, key)
	if !p.begun && p.after != "" {
		p.begun = cursor == p.after
		return true
	}
	if len(p.items) == pageFeatures || p.bytes > pageBytes {
		p.next = p.last
		return false
	}
	f := form()
	p.bytes += f.Length()
	p.items, p.last = append(p.items, f), cursor
	return true
}

// addFeature is the type of featurePage's add.
type addFeature func(capability, key string, form func() *manifest.Feature) bool

// pageOf returns the page of a list. each calls add with each feature until it returns false. If the last feature of
// the page before no longer exists, the list starts again.
func pageOf(ctx context.Context, cursor string, each func(add addFeature)) (*featurePage, error) {
	if text, err := base64.RawURLEncoding.DecodeString(cursor); err != nil || len(text) > 2*maxName ||
		cursor != "" && !strings.Contains(string(text), "\n") {
		return nil, refused(http.StatusBadRequest, jsonrpc.CodeInvalidParams, "LIST_INVALID",
			"cursor was not issued by this server")
	}
	p := &featurePage{after: cursor}
	if each(p.add); cursor != "" && !p.begun {
		p = &featurePage{}
		each(p.add)
	}
	return p, request.HoldResult(ctx, listCopies*p.bytes)
}
