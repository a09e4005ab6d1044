// Package verify checks the guarantees of approvals against a running gateway: with real calls of one tool that needs
// approval, and real answers.
//
//	verify.go   the call, the guarantees, and their results
//	attempt.go  one call, and whether it ran
//	asking.go   approvals that checks create and answer, and the cleanup
//	checks.go   the checks of one approval
//	races.go    the checks of concurrent redemptions and answers
//	expiry.go   the check of approvals that expire
//
// Each check has approvals of its own, in a session of its own, so that one broken guarantee fails one check. A check
// that cannot decide is not passed: its result is "not checked", with the reason.
//
// The package neither sets rules nor decides which tool is harmless: its user names the tool.
package verify
