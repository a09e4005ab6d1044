// Package discovery is the filter that answers calls of the tool that lists the others of a capability. The answer is
// the catalog's, with the tools that the caller may use, as on any other door: a caller starts no discovery at a
// backend, and learns no name that policy hides. It comes after authorize, as policy decides about this tool as about
// any other. The gateway's own discoveries are on a list without it.
package discovery
