// Package manifest reads a capability's manifest.yaml: what the capability is, which tools
// it offers or how to ask for them, what it needs and what it may be trusted with.
//
// It reads and checks; it applies nothing and runs nothing. The fields and rules are those
// of Selu's manifest reference, and the ones that Selu's orchestrator knows beside them:
// sharing, cache, requires_confirmation, terminal_on_success.
package manifest
