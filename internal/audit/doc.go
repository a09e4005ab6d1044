// Package audit writes the audit log: a tamper-evident record of calls and changes.
//
//	calls, changes ─► queue ─► writer ─► file or stdout
//	   (log.go)               (writer.go)   (sink.go)
//
// A record is a line of JSON with a number (seq) and the SHA-256 of the previous line without its end (prev), 64
// zeros in the first one (chain.go). So a line can be changed, removed or inserted only by rewriting all that follow;
// a copy of the last hash elsewhere detects that, too. Verify checks the chain.
//
// The queue is bounded and never blocks a caller. A record that finds it full is lost and counted, and the next
// record states how many were lost. A Required Log reserves a place in the queue for each call before it is made;
// without a place the call is rejected.
//
// No record has arguments, results, credentials or configuration. Texts of callers are cut.
package audit
