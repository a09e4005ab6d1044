// Package policy decides whether a tool call may run: allow it, ask a person, or block it.
//
//	         ┌── rules of the caller: user+agent → user → tenant+agent → tenant → global
//	call ──► │      a cache of what the store said; a miss is asked once, off the reader
//	         ├── what the tool's manifest recommends, else the fleet's own word
//	         └── nobody says anything: block
//
// The first level that says something decides; in a level the rule that names more does:
// capability and tool, capability, tool, neither. A decision is made from memory, before a
// backend is chosen, by the same function for calls and for lists of tools.
//
// What the store is not heard of any more is served for a stated time and then refused;
// what was never known is refused at once. A rule that cannot be understood blocks.
//
// The cache is read by every call (cache.go, part.go, entry.go): without a lock, and from two
// places in memory. Who changes it takes one.
//
// It knows neither backends nor bytes: it sees who calls and which tool, never arguments.
package policy
