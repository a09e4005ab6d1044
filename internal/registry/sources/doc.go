// Package sources lists the sources of backends besides the addresses of the configuration.
//
//	Sections, Fields ─► Settings ─► Set: each Source opened ─► Members, sorted, each backend once
//
// A source is a folder in internal/registry, and a row in All with its fields of the configuration.
package sources
