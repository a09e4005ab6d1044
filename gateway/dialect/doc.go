// Package dialect implements the dialects of the capability protocol: doc (selu.capability), live (selu.capability.v1,
// Capability) and legacy (selu.capability.v1, CapabilityService).
//
//	paths.go       which gRPC path is which RPC of which dialect, and what two dialects share
//	key.go         reads the routing fields out of an InvokeRequest without unmarshalling it
//	legacykey.go   the same for legacy, where some are entries of a map
//	outcome.go     reads what became of a call out of its response bytes as they pass
//	mentions.go    finds the ids of artifacts in results and arguments
//	translator.go  a gRPC server that carries calls from one dialect into another
//	upload.go      an upload, chunk by chunk
//	legacy.go      what becomes of a call from or to legacy
//	unread.go      which messages cannot be translated at all
//	metadata.go    what of a call's metadata a translated call takes along
//
// If two dialects have the same bytes for an RPC, the relay forwards them unchanged under the other path. If they
// differ, the translator serves the call in the process, and continues it in the other dialect.
//
//	client ─live─► relay ─live─► translator ─doc─► relay ─doc─► backend
//
// The package neither authorizes nor routes calls.
package dialect
