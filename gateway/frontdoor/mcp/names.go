package mcp

import (
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

// NewNames returns the names of capabilities with a prefix other than their id; "": none.
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

// known reports whether a capability has a tool of that name.
type known func(capability, tool string) bool

// Of returns the name of a tool. It is false for a tool that no name leads to: the name would be too long, or another
// tool has it.
func (n *Names) Of(capability, tool string, known known) (name string, ok bool) {
	prefix, other := n.prefixes[capability]
	switch {
	case !other:
		name = capability + separator + tool
	case prefix == "":
		name = tool
	default:
		name = prefix + separator + tool
	}
	owner, of, found := n.Resolve(name, known)
	return name, len(name) <= maxName && found && owner == capability && of == tool
}

// Resolve returns the tool that a name leads to. Whether there is such a tool, a call finds out.
func (n *Names) Resolve(name string, known known) (capability, tool string, ok bool) {
	prefix, tool, separated := strings.Cut(name, separator)
	if !separated {
		capability, ok = n.resolveBare(name, known)
		return capability, name, ok && name != ""
	}
	capability = prefix
	if owner, taken := n.owners[prefix]; taken {
		capability = owner
	} else if _, other := n.prefixes[prefix]; other {
		return "", "", false
	}
	return capability, tool, prefix != "" && tool != ""
}

// resolveBare returns the capability of a tool without a prefix: the first that has it.
func (n *Names) resolveBare(tool string, known known) (capability string, ok bool) {
	for _, c := range n.bare {
		if known(c, tool) {
			return c, true
		}
	}
	if len(n.bare) == 1 { // its tools may be unknown
		return n.bare[0], true
	}
	return "", false
}
