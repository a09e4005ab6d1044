// Package dialect implements the dialects of the capability protocol: doc (selu.capability), live (selu.capability.v1,
// Capability) and legacy (selu.capability.v1, CapabilityService).
//
//	paths.go       gRPC paths of the RPCs of each dialect, and what two dialects share
//	key.go         reads the routing fields out of an InvokeRequest without unmarshalling it
//	legacykey.go   the same for legacy, which has some of them in a map
//	outcome.go     reads a call's outcome from its response bytes as they pass
//	mentions.go    finds the ids of artifacts in results and arguments
//	translator.go  a gRPC server that translates calls from one dialect to another
//	upload.go      an upload, chunk by chunk
//	legacy.go      translation of calls from and to legacy
//	unread.go      messages that cannot be translated
//	metadata.go    the metadata that a translated call inherits
//
// If two dialects have the same bytes for an RPC, the relay forwards them unchanged under the other path. If they
// differ, the translator serves the call in the process, and continues it in the other dialect.
//
//	client ─live─► relay ─live─► translator ─doc─► relay ─doc─► backend
//
// The package neither authorizes nor routes calls.
package dialect
