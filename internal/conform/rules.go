package conform

// Sources of the rules. The older protocol is the legacy dialect.
const (
	protocol     = "capability protocol, "
	older        = "older capability protocol, "
	orchestrator = "Selu's orchestrator, "
)

// Rules returns all rules of dialects, in the order of the checks. A container that violates one of the last ones may
// violate any other afterwards.
func Rules() []Rule {
	var all []Rule
	for _, group := range [][]Rule{callRules(), streamRules(), fileRules(), loadRules()} {
		all = append(all, group...)
	}
	return all
}

// firstRules are checked before any dialect is known.
func firstRules() (port, dialect Rule) {
	return Rule{Name: "port", Says: "a server of HTTP/2 answers at the port",
			Source: protocol + "gRPC Interface: the server listens on port 50051"},
		Rule{Name: "dialect", Says: "it speaks a dialect of the protocol", Source: protocol + "Service definition"}
}

func callRules() []Rule {
	return []Rule{
		{"health", "the health call reports ready within 30 s of its start",
			protocol + "Health checks; " + orchestrator + "readiness", everywhere, checkHealth},
		{"discovery", "the discovery tool answers with a JSON array of tools",
			"manifest.yaml reference, dynamic tools", everywhere, checkDiscovery},
		{"unknown-tool", "a tool that is not there is an error in the answer, not a gRPC error",
			protocol + "InvokeResponse: error; older: gRPC Interface, Unknown tool", everywhere, checkUnknownTool},
		{"invoke", "a good call is answered with JSON and no error",
			protocol + "InvokeResponse: result_json; older: result, success", everywhere, checkInvoke},
		{"tool-error", "a tool's failure is an error in the answer, with gRPC status OK",
			protocol + "InvokeResponse: error; older: success, error", everywhere, checkToolError},
		{"metadata", "unknown metadata changes nothing",
			"gRPC, metadata; " + orchestrator + "sends none of its own, gateways do", everywhere, checkMetadata},
		{"unknown-fields", "unknown fields change nothing",
			"Protocol Buffers, unknown fields; " + protocol + "Key design decisions", everywhere, checkUnknownFields},
		{"context-optional", "a call without any context works",
			older + "gRPC Interface, context: treat this as optional", legacyOnly, checkContext},
	}
}

func streamRules() []Rule {
	return []Rule{
		{"stream", "a good call is streamed without an error", protocol + "StreamInvoke", modern, checkStream},
		{"stream-done", "the last chunk has done set", protocol + "InvokeChunk: done", modern, checkStreamDone},
		{"stream-end", "no chunk follows the one with done set",
			protocol + "InvokeChunk: done is on the final chunk", modern, checkStreamEnd},
		{"stream-result", "the chunks together are the result, as one JSON value or one for each of its parts",
			protocol + "InvokeChunk: data; Streaming with InvokeChunk", modern, checkStreamResult},
		{"stream-error", "a failure is an error in the last chunk, with gRPC status OK",
			protocol + "InvokeChunk: error", modern, checkStreamError},
	}
}

func fileRules() []Rule {
	const up, down = protocol + "UploadInputArtifact", protocol + "ArtifactChunk"
	return []Rule{
		{"upload", "a file of several chunks gets an id; its name and type are on the first only", up + "Chunk",
			modern, checkUpload},
		{"upload-size", "size_bytes is the number of bytes received",
			protocol + "live dialect, UploadInputArtifactResponse: size_bytes", liveOnly, checkUploadSize},
		{"upload-empty", "an empty file, which is one empty chunk, gets an id",
			orchestrator + "uploads: an empty file is one empty chunk", modern, checkUploadEmpty},
		{"upload-ids", "two files have two ids", up + "Response: capability_artifact_id", modern, checkUploadIDs},
		{"download", "a file that is downloaded has the bytes that were uploaded",
			protocol + "Artifacts for file transfer", modern, checkDownload},
		{"download-name", "its first chunk has its name and type", down + ": filename, mime_type", modern,
			checkDownloadName},
		{"download-done", "its last chunk has done set", down + ": done", modern, checkDownloadDone},
		{"download-end", "no chunk follows the one with done set", down + ": done is on the final chunk",
			modern, checkDownloadEnd},
		{"download-empty", "an empty file is downloaded as one empty chunk that has done set",
			orchestrator + "downloads: one without a chunk is an error", modern, checkDownloadEmpty},
		{"download-unknown", "a file that is not there is an error in the answer, not a gRPC error",
			down + ": error", modern, checkDownloadUnknown},
	}
}

func loadRules() []Rule {
	return []Rule{
		{"large-message", "requests of almost 4 MiB are accepted, or as large as the command says",
			"gRPC, default of received messages (4 MiB); " + orchestrator + "largest message (16 MiB)",
			everywhere, checkLarge},
		{"concurrent", "calls at the same time are all answered, each with its own answer",
			orchestrator + "sharing: shared, max_concurrent", everywhere, checkConcurrent},
		{"deadline", "a slow call ends at its deadline",
			"gRPC, deadlines; " + orchestrator + "time for a call (120 s)", everywhere, checkDeadline},
		{"deadline-files", "an upload ends at its deadline",
			"gRPC, deadlines; " + orchestrator + "time for a call (120 s)", modern, checkDeadlineFiles},
		{"cancel-files", "canceled uploads and downloads do not delay other calls", "gRPC, cancellation",
			modern, checkCancelFiles},
		{"cancel", "canceled slow calls do not delay other calls", "gRPC, cancellation", everywhere, checkCancel},
	}
}
