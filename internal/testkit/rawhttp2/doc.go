// Package rawhttp2 is an HTTP/2 peer under the full control of a test: it writes frames of any form in any order, at
// either end of a connection, and reads frames. It keeps no state of streams, windows or settings, sends nothing by
// itself and checks nothing, so that a test can violate every rule.
//
//	conn.go   Conn: bytes and frames over a net.Conn, with deadlines; header blocks
//	frame.go  Frame, and one function per kind that builds a well-formed one
//	wait.go   waiting for a frame, with responses to the others
package rawhttp2
