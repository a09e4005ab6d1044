// Package policy decides whether a tool call may run: allow it, ask a person, or
// block it. A decision is made from memory, before a backend is chosen, by the
// same function for calls and for lists of tools.
//
// So far there are no rules to decide by, and every call is allowed. Rules come
// from a tool's manifest and from overrides for tenants, agents and users; the
// most specific one wins, and a tool that none speaks of is blocked.
//
// It knows neither backends nor bytes: it sees who calls and which tool, never
// arguments.
package policy
