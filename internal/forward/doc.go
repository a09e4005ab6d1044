// Package forward is a stand-in for a capability container: it takes the calls that an orchestrator makes to a
// container, and forwards them to a gateway. It adds what such an orchestrator does not send: the capability, the
// session and a key.
//
//	orchestrator ── cleartext HTTP/2, no metadata ──► forward ── one HTTP/2 connection, TLS, a key ──► gateway
//
// It decides nothing, reads no message and keeps no state of a call: policy, approvals, limits and health are the
// gateway's. A call that provably did not start goes to another address of the gateway within a bounded time; any
// other call that loses its gateway ends with UNAVAILABLE.
//
// Selu repeats a call when the text of its error contains "connect", in any case. A text of this package contains it
// only if the call was not started.
//
// The package imports nothing of the gateway but the relay, so that a program made of it alone is small.
package forward
