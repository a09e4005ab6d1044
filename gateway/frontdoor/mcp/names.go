package mcp

import (
	"context"
	"slices"
	"strings"
)

// separator separates prefix and tool in a name. A prefix does not contain it, so a name is split at the first one.
const separator = "__"

// maxName is the maximum length of a tool's name in MCP, in bytes (2025-11-25, Tools, "Tool Names").
const maxName = 128

// Names maps tools to their names. It is immutable. In the zero value, the prefix of each tool is the capability's id.
type Names struct {
	prefixes map[string]string // by capability
	owners   map[string]string // by prefix
	bare     []string          // capabilities whose tools have no prefix, sorted
}

// NewNames returns Names for capabilities with a prefix other than their id; an empty prefix means none.
func NewNames(prefixes map[string]string) *Names {
	n := &Names{prefixes: prefixes, owners: map[string]string{}}
	for capability, prefix := range prefixes {
		if prefix == "" {
			n.bare = append(n.bare, capability)
		} else {
			n.owners[prefix] = capability
		}
	}
	slices.Sort(n.bare)
	return n
}

// View is the caller's view of the tools. Names are resolved in it, so that tools of other callers hide nothing.
type View interface {
	// Sees reports, from memory, whether a capability is visible to the caller of ctx.
	Sees(ctx context.Context, capability string) bool
	// Has reports whether a tool is known, and the caller may call it, perhaps after an approval.
	Has(ctx context.Context, capability, tool string) bool
}

// Of returns the name of a tool that the caller of ctx may use. ok is false for a tool without a name: it would be too
// long, or belongs to another tool of the caller.
func (n *Names) Of(ctx context.Context, capability, tool string, view View) (name string, ok bool) {
	prefix, other := n.prefixes[capability]
	switch {
	case !other:
		name = capability + separator + tool
	case prefix == "":
		name = tool
	default:
		name = prefix + separator + tool
	}
	owner, of, found := n.Resolve(ctx, name, view)
	return name, len(name) <= maxName && found && owner == capability && of == tool
}

// Resolve returns the tool with a name, for the caller of ctx. The tool may not exist.
func (n *Names) Resolve(ctx context.Context, name string, view View) (capability, tool string, ok bool) {
	prefix, tool, separated := strings.Cut(name, separator)
	if !separated {
		capability, ok = n.resolveBare(ctx, name, view)
		return capability, name, ok && name != ""
	}
	capability = prefix
	if owner, taken := n.owners[prefix]; taken && view.Sees(ctx, owner) {
		capability = owner
	} else if _, other := n.prefixes[prefix]; other && view.Sees(ctx, prefix) {
		return "", "", false
	}
	return capability, tool, prefix != "" && tool != ""
}

// resolveBare returns the first capability that has a tool without a prefix. If none is known to have it, ok is false,
// unless the caller sees only one such capability, whose tools may be unknown.
func (n *Names) resolveBare(ctx context.Context, tool string, view View) (capability string, ok bool) {
	for _, c := range n.bare {
		switch {
		case !view.Sees(ctx, c):
		case view.Has(ctx, c, tool):
			return c, true
		case capability == "":
			capability, ok = c, true
		default:
			ok = false
		}
	}
	return capability, ok
}
