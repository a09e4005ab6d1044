// Package authorize is the filter that decides whether a call may run.
//
//	filter.go      asks for the decision, and turns it into what becomes of the call
//	decide.go      what has to be found out beside the relay: policy, checks, Shield, approval, in this order
//	check.go       arguments against the tool's schema, credentials against what may be brought
//	shield.go      external authorization: the stricter of policy and Shield counts
//	approval.go    calls that a person has to approve: create, wait for, redeem, release
//	rejections.go  what clients are told
//
// In the steady state the decision is in memory and the call continues at once. Otherwise a goroutine checks a copy of
// its peeked fields while the call waits. An approval is released if the call provably did not start.
//
// The filter does not change or route calls, and keeps no arguments after the decision.
package authorize
