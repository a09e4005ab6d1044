package dialect

import (
	"strings"

	"github.com/capgate/capgate/internal/call"
)

// gRPC services of the dialects.
const (
	DocService    = "selu.capability.Capability"
	LiveService   = "selu.capability.v1.Capability"
	LegacyService = "selu.capability.v1.CapabilityService"
)

// Entry is the meaning of a gRPC path.
type Entry struct {
	Method  call.Method
	Dialect call.Dialect
	Service string // "package.Service"
}

// paths is the table of all RPCs of all dialects; empty means the dialect lacks the RPC. Lookup searches it in
// reverse.
var paths = [...][6]string{
	call.Doc: {
		call.Invoke:                 "/" + DocService + "/Invoke",
		call.StreamInvoke:           "/" + DocService + "/StreamInvoke",
		call.Healthcheck:            "/" + DocService + "/Healthcheck",
		call.UploadInputArtifact:    "/" + DocService + "/UploadInputArtifact",
		call.DownloadOutputArtifact: "/" + DocService + "/DownloadOutputArtifact",
	},
	call.Live: {
		call.Invoke:                 "/" + LiveService + "/Invoke",
		call.StreamInvoke:           "/" + LiveService + "/StreamInvoke",
		call.Healthcheck:            "/" + LiveService + "/Healthcheck",
		call.UploadInputArtifact:    "/" + LiveService + "/UploadInputArtifact",
		call.DownloadOutputArtifact: "/" + LiveService + "/DownloadOutputArtifact",
	},
	call.Legacy: {
		call.Invoke:      "/" + LegacyService + "/Invoke",
		call.Healthcheck: "/" + LegacyService + "/HealthCheck", // capital C
	},
}

// Lookup returns the RPC and the dialect of a path; false for other paths. It does not allocate: the service is a
// constant, not a part of path.
func Lookup(path string) (Entry, bool) {
	service, d := serviceOf(path)
	if d == call.Auto {
		return Entry{}, false
	}
	for m, p := range paths[d] {
		if p == path {
			return Entry{Method: call.Method(m), Dialect: d, Service: service}, true
		}
	}
	return Entry{}, false
}

func serviceOf(path string) (string, call.Dialect) {
	end := strings.LastIndexByte(path, '/')
	if end < 1 || path[0] != '/' {
		return "", call.Auto
	}
	switch path[1:end] {
	case DocService:
		return DocService, call.Doc
	case LiveService:
		return LiveService, call.Live
	case LegacyService:
		return LegacyService, call.Legacy
	}
	return "", call.Auto
}

// Owns reports whether path belongs to a service of the dialects.
func Owns(path string) bool {
	_, d := serviceOf(path)
	return d != call.Auto
}

// Path returns the gRPC path of m in d; false if d lacks the RPC or is Auto.
func Path(m call.Method, d call.Dialect) (string, bool) {
	if int(d) >= len(paths) || int(m) >= len(paths[d]) {
		return "", false
	}
	p := paths[d][m]
	return p, p != ""
}

// Mode is the conversion of a call for a backend with another dialect.
type Mode uint8

// Modes.
const (
	Impossible Mode = iota // the gateway rejects the call with UNIMPLEMENTED
	Same                   // the same bytes under the other dialect's path
	Convert                // other bytes, through the translator
)

var modeNames = [...]string{"impossible", "same", "convert"}

func (m Mode) String() string { return modeNames[m] }

// Translate returns the conversion of m for a client with the dialect from and a backend with the dialect to.
//
// Auto on either side means unknown: the call is forwarded unchanged, as between equal dialects.
func Translate(m call.Method, from, to call.Dialect) Mode {
	if from == to || from == call.Auto || to == call.Auto {
		return Same
	}
	legacy := from == call.Legacy || to == call.Legacy
	switch m {
	case call.Invoke, call.StreamInvoke:
		if legacy {
			return Convert
		}
		return Same
	case call.UploadInputArtifact:
		if legacy {
			return Impossible
		}
		return Convert
	case call.DownloadOutputArtifact:
		if legacy {
			return Impossible
		}
		return Same
	case call.Healthcheck: // the gateway responds, and all dialects can read the response
		return Same
	case call.Other:
		return Impossible
	}
	return Impossible
}

// Lacking returns the RPC of a path in a dialect that lacks it, although others have it.
func Lacking(path string) (call.Method, bool) {
	_, d := serviceOf(path)
	if d == call.Auto {
		return call.Other, false
	}
	name := path[strings.LastIndexByte(path, '/'):]
	for m, p := range paths[call.Doc] {
		if p != "" && paths[d][m] == "" && strings.HasSuffix(p, name) {
			return call.Method(m), true
		}
	}
	return call.Other, false
}
