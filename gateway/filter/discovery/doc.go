// Package discovery implements the filter that answers calls of the tool that lists a capability's tools. The answer
// comes from the catalog and has the tools that the caller may use, as at any other door: a caller cannot start a
// discovery at a backend, or see names that policy hides. The filter follows authorize, because policies apply to this
// tool too. The gateway's own discoveries bypass it.
package discovery
