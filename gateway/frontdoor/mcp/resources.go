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

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/untrusted"
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
	return pageOf(ctx, cursor, func(add addFeature) {
		for i := range offers {
			o := &offers[i]
			for _, f := range of(o) {
				if !add(o.Capability, f.URI+f.Template, func() *manifest.Feature {
					named := *f
					if f.Template != "" {
						named.Template = u.template(o.Capability, f.Template)
					} else {
						named.URI = u.name(o.Capability, f.URI)
					}
					return &named
				}) {
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
		return nil, u.unresolved(x, p.URI)
	}
	args, err := plainjson.Marshal(map[string]string{"uri": uri})
	if err != nil {
		return nil, unknownResource(x, p.URI)
	}
	i, err := h.newFeature(x, capability, manifest.ReadResource, args)
	if err != nil {
		return nil, err
	}
	h.readRound(i, req.Session, p.RequestState, p.InputResponses)
	text, asked, err := h.callFeature(ctx, i)
	switch {
	case isAbsent(err):
		return nil, unknownResource(x, p.URI)
	case asked != nil || err != nil:
		return asked, err
	}
	r, err := newFeatureResult(text, i.stateless)
	if err != nil {
		return nil, err
	}
	if r.Contents, err = u.linksOf(ctx, capability).contents(r.Contents); err != nil {
		return nil, err
	}
	if i.stateless { // a rule may hide the resource at any time
		r.TTLMs, r.CacheScope = new(int), "private"
	}
	return r, nil
}

const resourceUnknownReason = "RESOURCE_UNKNOWN"

// resourceUnknown is the JSON-RPC code for an unknown resource before 2026-07-28.
const resourceUnknown = -32002

// unknownResource returns the error for a resource that does not exist, or that policy hides.
func unknownResource(x *exchange, uri string) error {
	return resourceError(x, uri, "there is no resource %q, or a policy hides it, or several servers have it; "+
		"resources/list has the URIs that you may read")
}

// unresolved returns the error for a URI that leads to no server.
func (u *uris) unresolved(x *exchange, uri string) error {
	if u.open() && !isQualified(uri) {
		return resourceError(x, uri, "the server of %q cannot be determined while the resources of a server are not "+
			"known; retry later, or name the server: capgate:CAPABILITY:URI")
	}
	return unknownResource(x, uri)
}

// resourceError returns an error about a URI, whose format has one verb.
func resourceError(x *exchange, uri, format string) error {
	p := problem.Own(http.StatusNotFound, codes.NotFound, resourceUnknownReason,
		fmt.Sprintf(format, untrusted.Clip(uri, 200)))
	if p.JSONRPC = resourceUnknown; x.read.isStateless() {
		p.JSONRPC = jsonrpc.CodeInvalidParams
	}
	if p.Metadata == nil {
		p.Metadata = map[string]string{}
	}
	p.Metadata[uriKey] = untrusted.Clip(uri, manifest.MaxURI)
	return &p
}

// uriKey is the metadata that becomes the member uri of an error's data (2026-07-28, Resources, "Error Handling").
const uriKey = "uri"

// linksTo returns the links to a capability in a result. If the rules are unavailable, all of them name it: the call
// has run.
func (h *Handler) linksTo(ctx context.Context, capability string) *links {
	offers, err := h.cfg.Features.Resources(ctx, false)
	if err != nil {
		offers = nil
	}
	return newURIs(offers).linksOf(ctx, capability)
}

// linked returns the result of an MCP server's tool with links that lead back to the server.
func (h *Handler) linked(i *invocation, r *callResult) (_ *callResult, err error) {
	if h.cfg.Features != nil && hasLinks(r.items) {
		r.items, err = h.linksTo(i.exchange.r.Context(), i.req.GetCapabilityId()).items(r.items)
	}
	return r, err
}

// linkedMessages returns the messages of a prompt with such links.
func (h *Handler) linkedMessages(ctx context.Context, capability string, messages json.RawMessage) (
	json.RawMessage, error) {
	if !hasLinks(messages) {
		return messages, nil
	}
	return h.linksTo(ctx, capability).messages(messages)
}
