package mcp

import (
	"context"
	"slices"
	"strings"
)

// separator is between the prefix and the tool in a name. A prefix does not contain it, so that a name is split at
// the first one.
const separator = "__"

// maxName is the length of the longest name of a tool in MCP, in bytes (2025-11-25, Tools, "Tool Names").
const maxName = 128

// Names are the names of tools. It is immutable. The zero value has the capability's id as the prefix of each tool.
type Names struct {
	prefixes map[string]string // by capability
	owners   map[string]string // capabilities by their prefixes
	bare     []string          // capabilities whose tools have no prefix, sorted
}

// NewNames returns the names of capabilities with a prefix other than their id; empty means none.
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

// View is what the caller of ctx may use. Names are resolved in it: what other callers have hides nothing of it.
type View interface {
	// Sees reports whether the caller may know of a capability. It answers from memory.
	Sees(ctx context.Context, capability string) bool
	// Has reports whether a tool is known, and the caller may call it, perhaps after an approval.
	Has(ctx context.Context, capability, tool string) bool
}

// Of returns the name of a tool that the caller of ctx may use. It is false for a tool that no name leads to: the name
// would be too long, or another tool of the caller has it.
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

// Resolve returns the tool that a name leads to for the caller of ctx. Whether there is such a tool, a call finds out.
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

// resolveBare returns the capability of a tool without a prefix: the first that has it. It is false without, unless
// the caller sees only one such capability, whose tools may be unknown.
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
