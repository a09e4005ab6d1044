package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/manifest"
)

// resourceList is the result of resources/list.
type resourceList struct {
	sdk.ListResourcesResult
	Resources []*manifest.Feature `json:"resources"`
}

// templateList is the result of resources/templates/list.
type templateList struct {
	sdk.ListResourceTemplatesResult
	Templates []*manifest.Feature `json:"resourceTemplates"`
}

// listResources serves resources/list with a page of the resources that the caller may read.
func (h *Handler) listResources(ctx context.Context, req *sdk.ListResourcesRequest) (sdk.Result, error) {
	cursor := ""
	if req.Params != nil {
		cursor = req.Params.Cursor
	}
	p, err := h.pageOfResources(ctx, cursor, func(o *Offer) []*manifest.Feature { return o.Resources })
	if err != nil {
		return nil, err
	}
	result := &resourceList{sdk.ListResourcesResult{NextCursor: p.next}, append([]*manifest.Feature{}, p.items...)}
	result.TTLMs, result.CacheScope = int(listTTL/time.Millisecond), "private"
	return result, nil
}

// listTemplates serves resources/templates/list.
func (h *Handler) listTemplates(ctx context.Context, req *sdk.ListResourceTemplatesRequest) (sdk.Result, error) {
	cursor := ""
	if req.Params != nil {
		cursor = req.Params.Cursor
	}
	p, err := h.pageOfResources(ctx, cursor, func(o *Offer) []*manifest.Feature { return o.Templates })
	if err != nil {
		return nil, err
	}
	result := &templateList{sdk.ListResourceTemplatesResult{NextCursor: p.next},
		append([]*manifest.Feature{}, p.items...)}
	result.TTLMs, result.CacheScope = int(listTTL/time.Millisecond), "private"
	return result, nil
}

// pageOfResources returns a page of resources, or of templates, with URIs for the caller.
func (h *Handler) pageOfResources(ctx context.Context, cursor string, of func(*Offer) []*manifest.Feature) (
	*featurePage, error) {
	offers, err := h.cfg.Features.Resources(ctx, true)
	if err != nil {
		return nil, err
	}
	u := newURIs(offers)
	return pageOf(ctx, cursor, func(add func(string, string, *manifest.Feature) bool) {
		for i := range offers {
			o := &offers[i]
			for _, f := range of(o) {
				named := *f
				if f.Template != "" {
					named.Template = u.template(o.Capability, f.Template)
				} else {
					named.URI = u.name(o.Capability, f.URI)
				}
				if !add(o.Capability, f.URI+f.Template, &named) {
					return
				}
			}
		}
	})
}

// readResource serves resources/read.
func (h *Handler) readResource(ctx context.Context, req *sdk.ReadResourceRequest) (sdk.Result, error) {
	x, p := exchangeOf(ctx), req.Params
	offers, err := h.cfg.Features.Resources(ctx, true)
	if err != nil {
		return nil, err
	}
	u := newURIs(offers)
	capability, uri, ok := u.resolve(p.URI)
	if !ok || manifest.CheckURI(uri) != nil || !h.cfg.Features.Has(ctx, capability) {
		return nil, unknownResource(x, p.URI)
	}
	args, err := plainjson.Marshal(map[string]string{"uri": uri})
	if err != nil {
		return nil, unknownResource(x, p.URI)
	}
	i, err := h.newInvocation(x, capability, manifest.ReadResource, args)
	if err != nil {
		return nil, err
	}
	h.readRound(i, req.Session, p.RequestState, p.InputResponses)
	text, asked, err := h.callFeature(ctx, i)
	switch {
	case err != nil && (isHidden(err) || status.InfoOf(err) == nil && grpcstatus.Code(err) == codes.NotFound):
		return nil, unknownResource(x, p.URI)
	case asked != nil || err != nil:
		return asked, err
	}
	r, err := newFeatureResult(text, i.stateless)
	if err != nil {
		return nil, err
	}
	r.Contents = u.contents(capability, r.Contents)
	if i.stateless { // a rule may hide the resource at any time
		r.TTLMs, r.CacheScope = new(int), "private"
	}
	return r, nil
}

// contents returns the contents of a resource with URIs for the caller.
func (u *uris) contents(capability string, contents json.RawMessage) json.RawMessage {
	var all []json.RawMessage
	if json.Unmarshal(contents, &all) != nil {
		return contents
	}
	changed := false
	for i := range all {
		var members map[string]json.RawMessage
		if json.Unmarshal(all[i], &members) != nil {
			continue
		}
		if own, ok := u.member(capability, members); ok {
			all[i], changed = own, true
		}
	}
	if !changed {
		return contents
	}
	own, err := plainjson.Marshal(all)
	if err != nil {
		return contents
	}
	return own
}

const resourceUnknownReason = "RESOURCE_UNKNOWN"

// resourceUnknown is the JSON-RPC code for an unknown resource before 2026-07-28.
const resourceUnknown = -32002

// unknownResource returns the error for a resource that does not exist, or that policy hides.
func unknownResource(x *exchange, uri string) error {
	p := problem.Own(http.StatusNotFound, codes.NotFound, resourceUnknownReason, fmt.Sprintf("there is no resource "+
		"%.200q, or a policy hides it, or several servers have it; resources/list has the URIs that you may read", uri))
	if p.JSONRPC = resourceUnknown; x.read.isStateless() {
		p.JSONRPC = jsonrpc.CodeInvalidParams
	}
	if p.Metadata == nil {
		p.Metadata = map[string]string{}
	}
	p.Metadata[uriKey] = uri
	return &p
}

// uriKey is the metadata that becomes the member uri of an error's data (2026-07-28, Resources, "Error Handling").
const uriKey = "uri"

// linked returns the result of an MCP server's tool with links that lead back to the server. If the rules are
// unavailable, they are unchanged: the tool has run.
func (h *Handler) linked(i *invocation, r *callResult) *callResult {
	if h.cfg.Features == nil || !hasLinks(r.items) {
		return r
	}
	if offers, err := h.cfg.Features.Resources(i.exchange.r.Context(), false); err == nil {
		r.items = newURIs(offers).links(i.req.GetCapabilityId(), r.items)
	}
	return r
}

// linkedMessages returns the messages of a prompt with such links.
func (h *Handler) linkedMessages(ctx context.Context, capability string, messages json.RawMessage) json.RawMessage {
	var all []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if !hasLinks(messages) || strictjson.Unmarshal(messages, &all) != nil {
		return messages
	}
	offers, err := h.cfg.Features.Resources(ctx, false)
	if err != nil {
		return messages
	}
	u, changed := newURIs(offers), false
	for i := range all {
		if own, ok := u.content(capability, all[i].Content); ok {
			all[i].Content, changed = own, true
		}
	}
	if text, err := plainjson.Marshal(all); changed && err == nil {
		return text
	}
	return messages
}
