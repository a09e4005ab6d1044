// Package conform checks whether a capability container conforms to the capability protocol. It is a kit for authors
// of containers, and needs no gateway.
//
//	rule.go        a rule and its source
//	rules.go       all rules, in the order of the checks
//	kit.go         runs them
//	report.go      the results
//	sample.go      finds a harmless call in a manifest or by discovery
//	check_*.go     the checks
//	unfinished.go  a call with a deadline that only the server enforces
//
// A check that cannot decide is skipped, with a reason; a skipped rule is not a violation. One fault makes one rule
// fail: checks that depend on another rule's call are skipped if that call fails.
//
// A tool is called only if the author names a harmless call, or has the kit compose one; that call is made about fifty
// times. Without it, the kit makes calls that no tool carries out: of the health and discovery methods, of a tool that
// does not exist, and uploads of small files.
package conform
