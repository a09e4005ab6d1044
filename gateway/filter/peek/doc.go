// Package peek is the filter that reads the fields of the first message by which calls are routed and decided:
// capability, tool, session, arguments, artifact. It walks protobuf tags in place; gateway/dialect knows the messages.
//
//	filter.go   waits for the message and reads it
//	inflate.go  unpacks compressed messages beside the relay, within bounds
//
// A message that two decoders could read differently is rejected. Nothing is unmarshalled or changed, and a compressed
// message is unpacked only if a field of it matters.
package peek
