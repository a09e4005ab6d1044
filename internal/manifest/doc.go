// Package manifest parses a capability's manifest.yaml: the capability, its tools or the tool that lists them, its
// needs and its permissions.
//
// It parses and validates; it applies and runs nothing. The fields and rules are those of Selu's manifest reference,
// and those that only Selu's orchestrator uses: sharing, cache, requires_confirmation, terminal_on_success.
package manifest
