// Package extauthz gets an external authorization decision for calls that policy would allow or ask
// about: from a Shield. Options.Dial implements its protocol (gateway/engine/shield).
//
//	call ──► cache ──► one request for all equal calls ──► a free permit ──► Shield
//	           │                                                                    │
//	           └──────────── verdict: ALLOW, BLOCK, ESCALATE ◄──────────────────────┘
//
// Shield can only make decisions stricter: the stricter of the gateway's and Shield's decision applies.
// ALLOW thus replaces no approval. ESCALATE requires one.
//
// A verdict is cached until its expires_at, for at most an hour, for the same action of the same tenant:
// its type, capability, tool and the bytes of its arguments.
//
// # What is sent
//
// The request holds the tool and its arguments, and nothing else: neither the caller nor any
// configuration, which holds credentials. The tool is "capability__tool". The action's type is the
// tool's name in lower case, as Shield does for tools that it does not know (openparallax/openparallax,
// shield/mcpgateway.go). Arguments that two parsers could read differently are rejected, and never sent.
//
// # When Shield does not answer
//
// OnFailure decides the call: block (the default), ask or allow. Allow applies only to a Shield that is
// unreachable or does not answer in time; a caller that can overload it thus bypasses it. A malformed
// answer never means allow: at most it requires an approval.
//
// Errors and log lines contain neither arguments nor Shield's reasoning.
package extauthz
