package telemetry

import "log/slog"

// numCodes is the number of gRPC codes, OK to UNAUTHENTICATED.
const numCodes = 17

// codeUnknown is google.rpc.Code UNKNOWN, which gRPC clients read any code that
// they do not know as.
const codeUnknown = 2

// clampCode keeps a code that a backend invented inside the tables.
func clampCode(code uint32) uint32 {
	if code >= numCodes {
		return codeUnknown
	}
	return code
}

// codeNames are the names that google.rpc.Code gives to the codes.
var codeNames = [numCodes]string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND",
	"ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED",
	"OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED",
}

// CodeName is how google.rpc.Code calls a code; one that a backend invented is UNKNOWN.
func CodeName(code uint32) string { return codeNames[clampCode(code)] }

// brokenCodes are the codes that blame a backend or the gateway, one bit each:
// UNKNOWN, DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE and DATA_LOSS.
const brokenCodes = 1<<2 | 1<<4 | 1<<13 | 1<<14 | 1<<15

// levelOf chooses the level of a call's line. WARN is for what an operator may
// have to mend: a code that blames a backend or the gateway, or an answer that was
// cut off. What the caller did (cancel, ask for nothing that exists, be refused)
// and what a tool itself reports as its error are INFO, as success is.
func levelOf(rec *Record) slog.Level {
	if rec.Outcome == CutOff || 1<<clampCode(rec.Code)&brokenCodes != 0 {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}
