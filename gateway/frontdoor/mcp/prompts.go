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
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/manifest"
)

// promptView is the caller's view of the prompts, for their names.
type promptView struct {
	Catalog
	offers []Offer
}

// Has implements View.
func (v promptView) Has(_ context.Context, capability, prompt string) bool {
	for i := range v.offers {
		if v.offers[i].Capability == capability {
			return manifest.Find(v.offers[i].Prompts, prompt) != nil
		}
	}
	return false
}

// prompts returns the view of the caller of ctx. If wait is true, it may wait for lists.
func (h *Handler) prompts(ctx context.Context, wait bool) (v promptView, err error) {
	v.Catalog = h.cfg.Catalog
	v.offers, err = h.cfg.Features.Prompts(ctx, wait)
	return v, err
}

// onePrompt is a promptView that requests only the prompts of the capabilities that a name may lead to.
type onePrompt struct {
	Catalog
	features Features
}

// Has implements View.
func (v onePrompt) Has(ctx context.Context, capability, prompt string) bool {
	known, may, err := v.features.Prompt(ctx, capability, prompt)
	return err == nil && known && may
}

// promptList is the result of prompts/list.
type promptList struct {
	sdk.ListPromptsResult
	Prompts []*manifest.Feature `json:"prompts"`
}

// listPrompts serves prompts/list with a page of the prompts that the caller may get.
func (h *Handler) listPrompts(ctx context.Context, req *sdk.ListPromptsRequest) (sdk.Result, error) {
	view, err := h.prompts(ctx, true)
	if err != nil {
		return nil, err
	}
	cursor, names := "", h.settings.Load().Names
	if req.Params != nil {
		cursor = req.Params.Cursor
	}
	p, err := pageOf(ctx, cursor, func(add addFeature) {
		for i := range view.offers {
			o := &view.offers[i]
			for _, f := range o.Prompts {
				name, ok := names.Of(ctx, o.Capability, f.Name, view)
				if !ok {
					continue
				}
				if !add(o.Capability, f.Name, func() *manifest.Feature {
					named := *f
					named.Name = name
					return &named
				}) {
					return
				}
			}
		}
	})
	if err != nil {
		return nil, err
	}
	result := &promptList{sdk.ListPromptsResult{NextCursor: p.next}, append([]*manifest.Feature{}, p.items...)}
	result.TTLMs, result.CacheScope = int(listTTL/time.Millisecond), "private"
	return result, nil
}

// promptOf returns the prompt with a name. ok is false if policy hides it, or it does not exist. Prompts that are not
// known may exist.
func (h *Handler) promptOf(ctx context.Context, name string) (capability, prompt string, ok bool, err error) {
	capability, prompt, ok = h.settings.Load().Names.Resolve(ctx, name, onePrompt{h.cfg.Catalog, h.cfg.Features})
	if !ok || len(name) > maxName || manifest.CheckPrompt(prompt) != nil || !h.cfg.Features.Has(ctx, capability) {
		return "", "", false, nil
	}
	_, ok, err = h.cfg.Features.Prompt(ctx, capability, prompt)
	return capability, prompt, ok, err
}

// hiddenPrompt returns the error for a prompt that does not exist, or that policy hides.
func (h *Handler) hiddenPrompt(ctx context.Context, name string) error {
	var all []string
	if view, err := h.prompts(ctx, false); err == nil { // otherwise the error suggests no prompt
		names := h.settings.Load().Names
		for i := range view.offers {
			for _, f := range view.offers[i].Prompts {
				if own, ok := names.Of(ctx, view.offers[i].Capability, f.Name, view); ok && len(all) < maxNamed {
					all = append(all, own)
				}
			}
		}
	}
	p := problem.Own(http.StatusNotFound, codes.NotFound, "PROMPT_UNKNOWN",
		fmt.Sprintf("there is no prompt %.64q, or a policy hides it%s prompts/list has the prompts that you may get",
			name, hintOf(name, all))).NotStarted()
	p.JSONRPC = jsonrpc.CodeInvalidParams
	return &p
}

const promptsGet = "prompts/get"

// checkPromptArguments returns the error of arguments that are not an object of strings; null is an empty string.
func checkPromptArguments(params strictjson.Value) error {
	arguments, ok := params.Get("arguments")
	if !ok || arguments.Kind() == strictjson.Null {
		return nil
	}
	if arguments.Kind() != strictjson.Object {
		return invalidParams("the arguments of a prompt must be a JSON object")
	}
	for name, value := range arguments.Members() {
		if value.Kind() != strictjson.String && value.Kind() != strictjson.Null {
			return invalidParams(fmt.Sprintf("the arguments of a prompt must be strings, and %.64q is not",
				name.Bytes()))
		}
	}
	return nil
}

// getPrompt serves prompts/get.
func (h *Handler) getPrompt(ctx context.Context, req *sdk.GetPromptRequest) (sdk.Result, error) {
	x, p := exchangeOf(ctx), req.Params
	capability, prompt, ok, err := h.promptOf(ctx, p.Name)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, h.hiddenPrompt(ctx, p.Name)
	}
	args := []byte("{}")
	if p.Arguments != nil {
		args, _ = json.Marshal(p.Arguments) // strings can always be encoded
	}
	i, err := h.newFeature(x, capability, manifest.PromptPrefix+prompt, args)
	if err != nil {
		return nil, err
	}
	h.readRound(i, req.Session, p.RequestState, p.InputResponses)
	text, asked, err := h.callFeature(ctx, i)
	switch {
	case isAbsent(err):
		return nil, h.hiddenPrompt(ctx, p.Name)
	case asked != nil || err != nil:
		return asked, err
	}
	r, err := newFeatureResult(text, i.stateless)
	if err != nil {
		return nil, err
	}
	if r.Messages, err = h.linkedMessages(ctx, capability, r.Messages); err != nil {
		return nil, err
	}
	return r, nil
}

// complete serves completion/complete. A caller may complete the arguments of what it may get.
func (h *Handler) complete(ctx context.Context, req *sdk.CompleteRequest) (sdk.Result, error) {
	x, p := exchangeOf(ctx), req.Params
	if p.Ref == nil || p.Argument.Name == "" {
		return nil, invalidParams("completion/complete needs ref and argument")
	}
	ref := *p.Ref
	capability, err := h.completes(ctx, &ref)
	if err != nil {
		return nil, err
	}
	args, err := json.Marshal(struct {
		Ref      *sdk.CompleteReference     `json:"ref"`
		Argument sdk.CompleteParamsArgument `json:"argument"`
		Context  *sdk.CompleteContext       `json:"context,omitempty"`
	}{&ref, p.Argument, p.Context})
	if err != nil {
		return nil, invalidParams("ref is not valid")
	}
	i, err := h.newFeature(x, capability, manifest.Complete, args)
	if err != nil {
		return nil, err
	}
	text, asked, err := h.callFeature(ctx, i)
	if asked != nil || err != nil {
		return asked, err
	}
	r, err := newFeatureResult(text, i.stateless)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// completes returns the capability of a reference, which becomes that of its server.
func (h *Handler) completes(ctx context.Context, ref *sdk.CompleteReference) (capability string, _ error) {
	if ref.Type == "ref/resource" {
		return h.completesURI(ctx, ref)
	}
	capability, prompt, ok, err := h.promptOf(ctx, ref.Name)
	switch {
	case err != nil:
		return "", err
	case !ok:
		return "", h.hiddenPrompt(ctx, ref.Name)
	}
	ref.Name = prompt
	return capability, nil
}

// completesURI is completes for a resource or a template.
func (h *Handler) completesURI(ctx context.Context, ref *sdk.CompleteReference) (capability string, _ error) {
	offers, err := h.cfg.Features.Resources(ctx, true)
	if err != nil {
		return "", err
	}
	u := newURIs(offers)
	for i := range offers {
		for _, f := range offers[i].Templates {
			if u.template(offers[i].Capability, f.Template) == ref.URI {
				ref.URI = f.Template
				return offers[i].Capability, nil
			}
		}
	}
	capability, uri, ok := u.resolve(ref.URI)
	if !ok || !u.reads(capability) {
		return "", u.unresolved(exchangeOf(ctx), ref.URI)
	}
	ref.URI = uri
	return capability, nil
}
