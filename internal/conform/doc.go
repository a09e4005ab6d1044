// Package conform says whether a capability container keeps to the capability protocol: a kit for its
// author, who runs it against a container without a gateway.
//
//	rule.go        a rule: what it says, and which document says so
//	rules.go       all of them, in the order in which they are checked
//	kit.go         running them
//	report.go      what came out
//	sample.go      a call that does no harm, out of a manifest or discovery
//	check_*.go     the checks
//	unfinished.go  a call of which the server alone knows the deadline
//
// A check that cannot tell is skipped and says why; a skipped rule is not a broken one. Where one thing
// is wrong one rule fails: what can only be seen through another rule's call is skipped when that call
// fails. The harmless call is made about fifty times.
package conform
