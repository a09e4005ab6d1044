// Package h2 implements the part of HTTP/2 that a load generator and a backend need: it writes and reads the frames of
// gRPC calls in one or two hundred nanoseconds each, so that a benchmark measures the proxy between them.
//
// It is not meant for other uses. It trusts its peer: it follows the rules (flow control, acknowledgement of SETTINGS
// and PING, header compression state) but verifies few of them, and an unexpected frame ends the connection with an
// error.
//
//	frame.go    frames in bytes
//	parser.go   bytes in, frames out
//	encode.go   header blocks as grpc-go's encoder writes them
//	decode.go   header blocks from any encoder, a handful of fields kept
//	session.go  one connection: settings, windows, streams
//	send.go     message bodies under flow control
//	message.go  the few protobuf messages that are benchmarked
package h2
