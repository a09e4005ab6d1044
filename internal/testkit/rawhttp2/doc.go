// Package rawhttp2 is an HTTP/2 peer for tests that does only what it is told: it
// writes frames of any shape in any order, at either end of a connection, and reads
// what comes back. It keeps no state of streams, windows or settings, answers
// nothing by itself and checks nothing, so that a test can break every rule.
//
//	conn.go   Conn: bytes and frames over a net.Conn, with deadlines; header blocks
//	frame.go  Frame, and one function per kind that builds a well-formed one
//	wait.go   reading until something comes, with what else came kept out of the way
package rawhttp2
