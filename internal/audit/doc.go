// Package audit keeps a record of who did what, which shows whether somebody has changed it.
//
//	calls, changes ─► queue ─► writer ─► file or stdout
//	   (log.go)               (writer.go)   (sink.go)
//
// A record is a line of JSON with a number (seq) and the SHA-256 of the line before it, without its
// end (prev), 64 zeros in the first of all (chain.go). So no line can be changed, taken out or
// put in without all that follow being written again; whoever keeps the hash of the last line
// elsewhere finds that out, too. Verify follows the chain.
//
// The queue is bounded and nothing waits for it: what finds it full is lost, counted, and the next
// record that is written says how many there were. A Log that is Required has a place in the
// queue for each call before it is made, or it is not made.
//
// No record has arguments, results, credentials or configuration. Words that callers chose are cut.
package audit
