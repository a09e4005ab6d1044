// Package policy decides whether a tool call may run: allow it, ask a person, or block it.
//
//	         ┌── rules of the caller: user+agent → user → tenant+agent → tenant → global
//	call ──► │      a cache of the store; a miss is queried once, off the reader
//	         ├── the recommendation of the tool's manifest, else the fleet's declaration
//	         └── without any of them: block
//
// The first level with a rule decides. Within a level the most specific rule decides: capability and
// tool, capability, tool, neither. A decision is made from memory, before a backend is chosen, by the
// same function for calls and for lists of tools.
//
// While the store is silent, cached entries are served for a bounded time. Unknown ones are refused at
// once. A malformed rule blocks.
//
// Every call reads the cache (cache.go, internal/lib/cache) without a lock. Writers take a lock.
//
// The package handles neither backends nor bytes: a decision depends on the caller and the tool, never on arguments.
package policy
