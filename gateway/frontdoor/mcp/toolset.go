package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/lib/jsonpointer"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/toolset"
)

// toolsetIn returns the name of the toolset in a path, as in /mcp/NAME; empty means it has none.
func toolsetIn(path string) string {
	name, below := strings.CutPrefix(path, Path+"/")
	if !below || !toolset.IsName(name) {
		return ""
	}
	return name
}

type toolsetKey struct{}

// toolsetOf returns the toolset of the request of ctx; nil means it has all tools.
func toolsetOf(ctx context.Context) *toolset.Set {
	s, _ := ctx.Value(toolsetKey{}).(*toolset.Set)
	return s
}

// choose returns a request with the toolset that its path names, for its caller.
func (h *Handler) choose(r *http.Request) (*http.Request, error) {
	name := toolsetIn(r.URL.Path)
	if name == "" {
		return r, nil
	}
	all := h.settings.Load().Toolsets
	unread := all.Unread()
	set := all.Find(name, h.cfg.Member(r))
	switch {
	case set == nil && unread:
		return r, unavailable("TOOLSETS_UNAVAILABLE", "the toolsets are not known yet")
	case set == nil:
		return r, refused(http.StatusNotFound, jsonrpc.CodeInvalidRequest, "TOOLSET_UNKNOWN",
			fmt.Sprintf("there is no toolset %q for this caller; %s has all tools that it may call", name, Path))
	}
	return request.With(r, toolsetKey{}, set), nil
}

// Toolsets returns the names of the toolsets that the caller of a request may use, sorted. The error is a gRPC status:
// the caller may not list tools.
func (h *Handler) Toolsets(r *http.Request) (names []string, err error) {
	if err = h.cfg.Authenticate(r); err == nil {
		err = h.cfg.Lists(r)
	}
	if err != nil {
		return nil, err
	}
	for _, set := range h.settings.Load().Toolsets.Of(h.cfg.Member(r)) {
		names = append(names, set.Name())
	}
	return names, nil
}

// nameOf returns the name of a tool for the caller of ctx. ok is false for a tool without a name, see Names.Of, or
// outside of the toolset.
func (h *Handler) nameOf(ctx context.Context, capability, tool string) (name string, ok bool) {
	set := toolsetOf(ctx)
	if set != nil {
		switch e := set.Entry(capability, tool); {
		case e == nil:
			return "", false
		case e.Name != "":
			return e.Name, true
		}
	}
	name, ok = h.settings.Load().Names.Of(ctx, capability, tool, h.cfg.Catalog)
	return name, ok && (set == nil || set.Named(name) == nil)
}

// resolved is the tool with a name, for the caller of a request.
type resolved struct {
	name, capability, tool string
	entry                  *toolset.Entry // of the toolset of the request; nil means none
	ok                     bool
}

// toolOf returns the tool with a name, for the caller of ctx. The tool may not exist. A request resolves its name once.
func (h *Handler) toolOf(ctx context.Context, name string) (capability, tool string, ok bool) {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	if x == nil {
		r := h.resolve(ctx, name)
		return r.capability, r.tool, r.ok
	}
	if x.tool.name != name {
		x.tool = h.resolve(ctx, name)
	}
	return x.tool.capability, x.tool.tool, x.tool.ok
}

func (h *Handler) resolve(ctx context.Context, name string) resolved {
	r, set, names := resolved{name: name}, toolsetOf(ctx), h.settings.Load().Names
	if r.entry = set.Named(name); r.entry != nil {
		r.capability, r.tool, r.ok = r.entry.Capability, r.entry.Tool, true
		return r
	}
	r.capability, r.tool, r.ok = names.Resolve(ctx, name, h.cfg.Catalog)
	if set == nil {
		return r
	}
	if r.entry = set.Entry(r.capability, r.tool); !r.ok || r.entry == nil || r.entry.Name != "" {
		return resolved{name: name}
	}
	return r
}

// entryOf returns the entry of the tool that a request calls; nil means its toolset has none.
func (x *exchange) entryOf(ctx context.Context, capability, tool string) *toolset.Entry {
	if x.tool.ok && x.tool.capability == capability && x.tool.tool == tool {
		return x.tool.entry
	}
	return toolsetOf(ctx).Entry(capability, tool)
}

// fill returns the arguments of a call with those that its toolset fixes, and the name of the toolset if it describes
// an earlier version of the tool.
func (h *Handler) fill(ctx context.Context, x *exchange, capability, tool string, args []byte) (
	full []byte, changed string, err error) {
	e := x.entryOf(ctx, capability, tool)
	if e == nil {
		return args, "", nil
	}
	if len(e.Arguments) > 0 {
		reader := strictjson.Get()
		defer reader.Release()
		if err = x.read.find(reader, args); err == nil {
			err = request.HoldResult(ctx, len(args)+e.Arguments.Size())
		}
		if err == nil {
			args, err = e.Fill(args, reader.Root())
		}
	}
	var fixed *toolset.FixedError
	if errors.As(err, &fixed) {
		err = status.Error(&call.Refusal{Kind: call.InvalidArgument, Reason: "ARGUMENTS_INVALID", Message: err.Error(),
			Metadata: map[string]string{"pointer": pointerTo(fixed.Name)}}, call.NotSent)
	}
	if e.Changed(h.cfg.Catalog.Hash(capability, tool)) {
		changed = toolsetOf(ctx).Name()
	}
	return args, changed, err
}

// fixedWrongly returns err, the refusal of a call because of its arguments, with another message if the wrong argument
// is one that the toolset fixes: the client cannot correct it.
func fixedWrongly(i *invocation, err error) error {
	set, info := toolsetOf(i.exchange.r.Context()), status.InfoOf(err)
	e, at := set.Entry(i.req.GetCapabilityId(), i.req.GetToolName()), info.GetMetadata()["pointer"]
	if e == nil || at == "" {
		return err
	}
	for _, a := range e.Arguments {
		if of := pointerTo(a.Name); at != of && !strings.HasPrefix(at, of+"/") {
			continue
		}
		return status.Error(&call.Refusal{Kind: call.InvalidArgument, Reason: info.GetReason(),
			Metadata: info.GetMetadata(),
			Message: fmt.Sprintf("the value that the toolset %s fixes for the argument %.128q does not match the "+
				"schema of the tool; other arguments do not help: an operator has to correct the toolset (%s)",
				set.Name(), a.Name, grpcstatus.Convert(err).Message())}, call.NotSent)
	}
	return err
}

// pointerTo returns the JSON pointer to a member of the arguments (RFC 6901).
func pointerTo(name string) string {
	return "/" + jsonpointer.Escape(name)
}

// chosenTools is a catalog of which a request at a toolset sees the chosen tools, in the form of the toolset.
type chosenTools struct{ Catalog }

// Tools implements Catalog.
func (c chosenTools) Tools(ctx context.Context, from string, visit func(capability string, tools []Tool) bool) error {
	set := toolsetOf(ctx)
	if set == nil {
		return c.Catalog.Tools(ctx, from, visit)
	}
	return c.Catalog.Tools(ctx, from, func(capability string, tools []Tool) bool {
		var chosen []Tool
		for i := range tools {
			if e := set.Entry(capability, tools[i].Name); e != nil {
				chosen = append(chosen, c.form(e, capability, tools[i]))
			}
		}
		return len(chosen) == 0 || visit(capability, chosen)
	})
}

// form returns a tool in the form of its entry.
func (c chosenTools) form(e *toolset.Entry, capability string, t Tool) Tool {
	t.Description, t.InputSchema = cmp.Or(e.Description, t.Description), e.Schema(t.InputSchema)
	if e.Name != "" {
		t.Extras = untitled(t.Extras)
	}
	if e.Changed(c.Hash(capability, t.Name)) {
		t.Extras = marked(t.Extras)
	}
	return t
}

// untitled returns the extras of a tool with another name, without the server's titles: clients show a title in place
// of the name.
func untitled(e *manifest.Extras) *manifest.Extras {
	if e == nil {
		return nil
	}
	own := *e
	own.Title = nil
	var hints map[string]json.RawMessage
	if json.Unmarshal(own.Annotations, &hints) != nil || hints["title"] == nil {
		return &own
	}
	delete(hints, "title")
	text, err := plainjson.Marshal(hints)
	if own.Annotations = text; err != nil || len(hints) == 0 {
		own.Annotations = nil
	}
	return &own
}

// metaChanged is the member of a tool's _meta that says that the tool has changed since its toolset described it.
const metaChanged = "dev.capgate/changed"

// marked returns the extras of a tool that has changed.
func marked(e *manifest.Extras) *manifest.Extras {
	own := manifest.Extras{}
	if e != nil {
		own = *e
	}
	meta := map[string]json.RawMessage{}
	if len(own.Meta) > 0 && json.Unmarshal(own.Meta, &meta) != nil || meta == nil {
		return e
	}
	meta[metaChanged] = json.RawMessage("true")
	text, err := plainjson.Marshal(meta)
	if err != nil {
		return e
	}
	own.Meta = text
	return &own
}

// Has implements View.
func (c chosenTools) Has(ctx context.Context, capability, tool string) bool {
	if set := toolsetOf(ctx); set != nil && set.Entry(capability, tool) == nil {
		return false
	}
	return c.Catalog.Has(ctx, capability, tool)
}

// Undiscovered implements Catalog.
func (c chosenTools) Undiscovered(ctx context.Context, capability string) error {
	if set := toolsetOf(ctx); set != nil && !set.Has(capability) {
		return nil
	}
	return c.Catalog.Undiscovered(ctx, capability)
}

// chosenFeatures has the features that a request at a toolset sees: prompts like tools, and the resources of the
// capabilities of which it has a tool, because results link to them.
type chosenFeatures struct{ Features }

// Prompts implements Features.
func (c chosenFeatures) Prompts(ctx context.Context, wait bool) ([]Offer, error) {
	all, err := c.Features.Prompts(ctx, wait)
	set := toolsetOf(ctx)
	if set == nil {
		return all, err
	}
	for i := range all {
		o := &all[i]
		var chosen []*manifest.Feature
		for _, p := range o.Prompts {
			if set.Entry(o.Capability, manifest.PromptPrefix+p.Name) != nil {
				chosen = append(chosen, p)
			}
		}
		o.Prompts = chosen
	}
	return all, err
}

// Prompt implements Features.
func (c chosenFeatures) Prompt(ctx context.Context, capability, prompt string) (known, may bool, err error) {
	if set := toolsetOf(ctx); set != nil && set.Entry(capability, manifest.PromptPrefix+prompt) == nil {
		return true, false, nil
	}
	return c.Features.Prompt(ctx, capability, prompt)
}

// Resources implements Features.
func (c chosenFeatures) Resources(ctx context.Context, wait bool) ([]Offer, error) {
	all, err := c.Features.Resources(ctx, wait)
	set := toolsetOf(ctx)
	if set == nil {
		return all, err
	}
	var chosen []Offer
	for i := range all {
		if set.Has(all[i].Capability) {
			chosen = append(chosen, all[i])
		}
	}
	return chosen, err
}

// Has implements Features.
func (c chosenFeatures) Has(ctx context.Context, capability string) bool {
	set := toolsetOf(ctx)
	return c.Features.Has(ctx, capability) && (set == nil || set.Has(capability))
}

// Updates implements Features.
func (c chosenFeatures) Updates(ctx context.Context, capability string) (bool, error) {
	if set := toolsetOf(ctx); set != nil && !set.Has(capability) {
		return false, nil
	}
	return c.Features.Updates(ctx, capability)
}
