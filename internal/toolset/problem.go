package toolset

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/toolschema"
)

// Catalog has the known tools.
type Catalog interface {
	// Capabilities returns the ids of all capabilities.
	Capabilities() []string
	// Visit calls visit with the tools of a capability until it returns false. known is false for a capability whose
	// tools are not known, and features reports whether it may also have prompts and resources.
	Visit(capability string, visit func(*manifest.Tool) bool) (known, features bool)
}

// Problem returns why an entry chooses no known tool, or not the one that it describes. It returns "" for an entry that
// may choose one. more reports whether there may be capabilities that the catalog does not have yet.
func (e *Entry) Problem(ctx context.Context, all Catalog, more bool) string {
	there, found, problem := false, false, ""
	for _, id := range all.Capabilities() {
		if !e.Has(id) {
			continue
		}
		there = true
		known, features := all.Visit(id, func(t *manifest.Tool) bool {
			if found = matches(e.Tool, t.Name); found {
				problem = e.mismatch(ctx, t)
			}
			return !found
		})
		if found || !known || features && e.choosesFeatures() {
			return problem
		}
	}
	switch {
	case more:
		return ""
	case there:
		return fmt.Sprintf("no tool of %s matches %s", e.Capability, e.Tool)
	}
	return fmt.Sprintf("there is no fleet %s", e.Capability)
}

// choosesFeatures reports whether an entry may choose something other than a tool.
func (e *Entry) choosesFeatures() bool {
	return e.Tool == "*" || manifest.IsFeature(e.Tool) || strings.HasPrefix(e.Tool, manifest.PromptPrefix) ||
		isPattern(e.Tool) && strings.Contains(e.Tool, "/")
}

// mismatch returns how a tool differs from what its entry says of it, or "".
func (e *Entry) mismatch(ctx context.Context, t *manifest.Tool) string {
	var all []string
	if e.Hash != (toolschema.Hash{}) {
		if hash := t.Hash(); e.Changed(hash, true) {
			all = append(all, fmt.Sprintf("the hash of %s has changed, so its calls need approval; it is now %s",
				t.Name, hash))
		}
	}
	if len(e.Arguments) > 0 {
		switch err := t.Schema.CheckMembers(ctx, e.Arguments.Object()); {
		case errors.As(err, new(*toolschema.Violation)):
			all = append(all, fmt.Sprintf("the fixed arguments do not match the schema of %s: %v", t.Name, err))
		case err != nil && ctx.Err() == nil:
			all = append(all, fmt.Sprintf("the fixed arguments %v", err))
		}
	}
	return strings.Join(all, "; ")
}
