// Package h2 is as much HTTP/2 as a load generator and a backend need, and no
// more: it writes and reads the frames of gRPC calls for one or two hundred
// nanoseconds each, so that what a benchmark measures is the proxy between them.
//
// It is not a library for anything else. It trusts its peer: it keeps the rules
// (flow control, SETTINGS and PING acknowledgement, header coding state) but
// checks few of them, and every surprise ends the connection with an error.
//
//	frame.go    frames in bytes
//	parser.go   bytes in, frames out
//	encode.go   header blocks as grpc-go's encoder writes them
//	decode.go   header blocks from any encoder, a handful of fields kept
//	session.go  one connection: settings, windows, streams
//	send.go     message bodies under flow control
//	message.go  the few protobuf messages that are benchmarked
package h2
