// Package peek implements the filter that reads the fields of the first message for routing and authorization:
// capability, tool, session, arguments, artifact. It walks protobuf tags in place; gateway/dialect defines the
// messages.
//
//	filter.go   waits for the message and reads it
//	inflate.go  decompresses messages beside the relay, within bounds
//
// A message that two decoders could read differently is rejected. Nothing is unmarshalled or changed. A compressed
// message is decompressed only if one of its fields matters.
package peek
