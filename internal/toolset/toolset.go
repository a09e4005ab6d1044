package toolset

import "github.com/capgate/capgate/internal/toolschema"

// Toolset is a named list of tools.
type Toolset struct {
	// Name in the URL /mcp/NAME. Toolsets of different tenants or groups may share a name: a caller gets the first one
	// that is for it.
	Name string `yaml:"name" kind:"toolset" required:""`
	// Tenants of the callers. Default all.
	Tenants []string `yaml:"tenants" kind:"tenant"`
	// Groups of the callers, by issuers[].claims.groups; one of them is enough. Default all callers of the tenants.
	Groups []string `yaml:"groups" kind:"group"`
	// The tools, at most 256 entries. Of several entries for a tool, the one with its exact names counts, and otherwise
	// the first.
	Tools []Entry `yaml:"tools" required:"" min:"1"`
}

// Entry chooses tools.
type Entry struct {
	// Capability of the tools; * matches any text.
	Capability string `yaml:"capability" kind:"pattern" max:"128" required:""`
	// Tool, as policies name it; * matches any text. * alone also chooses prompts.
	Tool string `yaml:"tool" kind:"tool_pattern" max:"256" default:"'*'"`
	// Name of the tool for clients, in place of capability__tool. It needs exact names of capability and tool.
	Name string `yaml:"name" kind:"tool_name"`
	// Description for clients, in place of the server's. It needs hash.
	Description string `yaml:"description" max:"8192"`
	// Hash of the server's own description and schemas, which capgate catalog show prints. While the tool has another
	// one, calls that would be allowed need approval. Default any.
	Hash toolschema.Hash `yaml:"hash"`
	// Arguments with fixed values. Clients do not see them, and calls that have them are rejected.
	Arguments Arguments `yaml:"arguments"`
}

// Arguments are fixed arguments of a tool, in the order of their names.
type Arguments []Argument

// Argument is a fixed argument.
type Argument struct {
	Name   string
	Value  []byte // JSON
	folded string // Name without case
}

// IsExact reports whether an entry names one tool.
func (e *Entry) IsExact() bool { return !isPattern(e.Capability) && !isPattern(e.Tool) }

// Changed reports whether a tool does not have the hash of its entry. known is false for a tool whose hash is not
// known. e may be nil.
func (e *Entry) Changed(hash toolschema.Hash, known bool) bool {
	return e != nil && e.Hash != toolschema.Hash{} && (!known || hash != e.Hash)
}
