package tools

import (
	"context"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
)

// PromptsOf implements rest.Features.
func (d *Door) PromptsOf(ctx context.Context, capability string) ([]*manifest.Feature, error) {
	o, err := d.offer(ctx, capability, offersOf.prompts)
	return o.Prompts, err
}

// ResourcesOf implements rest.Features.
func (d *Door) ResourcesOf(ctx context.Context, capability string) (resources, templates []*manifest.Feature, _ error) {
	o, err := d.offer(ctx, capability, offersOf.resources)
	return o.Resources, o.Templates, err
}

// LacksPrompt implements rest.Features.
func (d *Door) LacksPrompt(ctx context.Context, capability, prompt string) (bool, error) {
	if d.Handler == nil || web.From(ctx).Refusal != nil { // the call itself is rejected
		return false, nil
	}
	known, may, err := offersOf{d.tools}.Prompt(ctx, capability, prompt)
	return known && !may, err
}

// offer returns the features of a capability that the caller of ctx may use. fill adds them. A capability of another
// protocol has none.
func (d *Door) offer(ctx context.Context, capability string,
	fill func(offersOf, context.Context, *mcp.Offer, *manifest.Features) error) (o mcp.Offer, _ error) {
	r := web.From(ctx)
	if err := r.Authenticate(ctx); err != nil {
		return o, err
	}
	if err := errorOf(listable(&r.Identity)); err != nil {
		return o, err
	}
	t := offersOf{d.tools}
	switch {
	case d.Handler == nil || t.router.Table().Fleet(capability) == nil || !r.Identity.Sees(capability):
		return o, errorOf(call.UnknownCapability(capability, ""))
	case !t.Has(ctx, capability):
		return o, nil
	}
	of := t.features.of(ctx, capability)
	if of == nil {
		return o, errorOf(featuresUnknown)
	}
	o.Capability = capability
	return o, fill(t, ctx, &o, of)
}

var featuresUnknown = &call.Refusal{Kind: call.Unavailable, Reason: "FEATURES_UNKNOWN", RetryAfter: time.Second,
	Message: "the MCP server has not listed its prompts and resources yet; retry later"}
