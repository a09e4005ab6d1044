// Package toolset defines toolsets: named lists of tools that callers of MCP use in place of all their tools. A toolset
// chooses tools, and may give them other names and descriptions, and fixed arguments. It permits nothing: policy
// decides about the tools by their own names.
//
//	toolset.go    Toolset and Entry, as the configuration has them
//	check.go      checks of both
//	sets.go       Sets and Set: the toolset of a caller, and the entry of a tool
//	arguments.go  fixed arguments of calls
//	manager.go    Manager: the toolsets of a replica, of the configuration and those that operators have set
//	schema.go     schemas without the fixed arguments
//	problem.go    entries that choose no known tool, or another version of one
package toolset
