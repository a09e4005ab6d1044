package telemetry

import "log/slog"

// numCodes is the number of gRPC codes, OK to UNAUTHENTICATED.
const numCodes = 17

// codeUnknown is google.rpc.Code UNKNOWN. gRPC clients treat unknown codes as this one.
const codeUnknown = 2

// KnownCode returns a code, or UNKNOWN for one that a backend invented.
func KnownCode(code uint32) uint32 {
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

// CodeName returns the google.rpc.Code name of a code. A code that a backend invented is UNKNOWN.
func CodeName(code uint32) string { return codeNames[KnownCode(code)] }

// brokenCodes are the codes that indicate a problem of a backend or the gateway, one bit each: UNKNOWN,
// DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE and DATA_LOSS.
const brokenCodes = 1<<2 | 1<<4 | 1<<13 | 1<<14 | 1<<15

// levelOf returns the level of a call's line. WARN is for problems that an operator may have to fix: a code
// that indicates a problem of a backend or the gateway, or a truncated response. Results that depend on the
// caller (a cancellation, an unknown name, a refusal) and errors of a tool are INFO, as success is.
func levelOf(rec *Record) slog.Level {
	if rec.Outcome == CutOff || 1<<KnownCode(rec.Code)&brokenCodes != 0 {
		return slog.LevelWarn
	}
	return slog.LevelInfo
}
