// Package authorize implements the filter that decides whether a call may run.
//
//	filter.go      requests the decision, and applies it to the call
//	decide.go      decisions beside the relay: policy, checks, Shield and approval, in this order
//	check.go       checks arguments against the tool's schema, and credentials against their permitted names
//	shield.go      external authorization: the stricter of policy and Shield counts
//	approval.go    calls that need a person's approval: create, wait for, redeem, release
//	rejections.go  the rejections that clients receive
//
// In the steady state the decision is in memory and the call continues at once. Otherwise a goroutine checks a copy of
// its peeked fields while the call waits. An approval is released if the call provably did not start.
//
// The filter does not change or route calls, and keeps no arguments after the decision.
package authorize
