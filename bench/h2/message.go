package h2

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
)

// Methods of the capability protocol's doc dialect that are measured.
const (
	PathInvoke = "/selu.capability.Capability/Invoke"
	// PathLegacy is the method of the legacy dialect. Its request has the same first fields.
	PathLegacy   = "/selu.capability.v1.CapabilityService/Invoke"
	PathStream   = "/selu.capability.Capability/StreamInvoke"
	PathHealth   = "/selu.capability.Capability/Healthcheck"
	PathUpload   = "/selu.capability.Capability/UploadInputArtifact"
	PathDownload = "/selu.capability.Capability/DownloadOutputArtifact"
)

// Work describes a response of the backend. It is sent as the request's first field, tool_name or artifact_id.
type Work struct {
	Kind  WorkKind
	Count int // messages; with Paced, messages a second
	Size  int // bytes of payload per message
}

// WorkKind is a kind of response.
type WorkKind string

// The kinds.
const (
	ReplyWork    WorkKind = "reply"    // one InvokeResponse
	ChunksWork   WorkKind = "chunks"   // Count chunks, as fast as possible
	PacedWork    WorkKind = "paced"    // Count chunks a second until the client leaves
	IdleWork     WorkKind = "idle"     // Count chunks, then silence
	ArtifactWork WorkKind = "artifact" // Count chunks of an artifact
)

func (w Work) String() string { return fmt.Sprintf("%s_%d_%d", w.Kind, w.Count, w.Size) }

const (
	maxWorkCount = 1 << 24
	maxWorkSize  = 16 << 20 // bytes
)

// ParseWork parses the result of String.
func ParseWork(s string) (Work, error) {
	parts := strings.Split(s, "_")
	if len(parts) != 3 {
		return Work{}, fmt.Errorf("work %q: want kind_count_size", s)
	}
	count, err1 := strconv.Atoi(parts[1])
	size, err2 := strconv.Atoi(parts[2])
	if err1 != nil || err2 != nil || count < 1 || size < 0 || count > maxWorkCount || size > maxWorkSize {
		return Work{}, fmt.Errorf("work %q: bad count or size", s)
	}
	w := Work{Kind: WorkKind(parts[0]), Count: count, Size: size}
	switch w.Kind {
	case ReplyWork, ChunksWork, PacedWork, IdleWork, ArtifactWork:
		return w, nil
	}
	return Work{}, fmt.Errorf("work %q: unknown kind", s)
}

const prefixLen = 5 // gRPC: compressed flag and length

// InvokeRequest returns a prefixed InvokeRequest with size bytes of args_json.
func InvokeRequest(w Work, capability, session string, size int) []byte {
	m := appendField(nil, 1, []byte(w.String()))
	m = appendField(m, 2, filler(size))
	m = appendField(m, 4, []byte(session))
	return prefixed(appendField(m, 5, []byte(capability)))
}

// DownloadRequest returns a prefixed DownloadOutputArtifactRequest.
func DownloadRequest(w Work) []byte { return prefixed(appendField(nil, 1, []byte(w.String()))) }

// UploadChunk returns a prefixed UploadInputArtifactChunk of the doc dialect. Only the first chunk has the names.
func UploadChunk(size int, first bool) []byte {
	m := appendField(nil, 1, filler(size))
	if first {
		m = appendField(m, 2, []byte("report.csv"))
		m = appendField(m, 3, []byte("text/csv"))
	}
	return prefixed(m)
}

// Uploaded is the artifact id in responses to uploads. It can be downloaded.
var Uploaded = Work{Kind: ArtifactWork, Count: 32, Size: 256 << 10}

// UploadReply returns a prefixed UploadInputArtifactResponse.
func UploadReply() []byte { return prefixed(appendField(nil, 1, []byte(Uploaded.String()))) }

// InvokeResponse returns a prefixed InvokeResponse with size bytes of result_json.
func InvokeResponse(size int) []byte { return prefixed(appendField(nil, 1, filler(size))) }

// InvokeChunk returns a prefixed InvokeChunk with size bytes of data.
func InvokeChunk(size int, done bool) []byte {
	m := appendField(nil, 1, filler(size))
	if done {
		m = append(m, 2<<3, 1)
	}
	return prefixed(m)
}

// ArtifactChunk returns a prefixed ArtifactChunk with size bytes of data.
func ArtifactChunk(size int, done bool) []byte {
	m := appendField(nil, 1, filler(size))
	if done {
		m = append(m, 4<<3, 1)
	}
	return prefixed(m)
}

// HealthReply returns a prefixed health response with the status ready.
func HealthReply() []byte { return prefixed([]byte{1 << 3, 1}) }

// FirstField returns the first field of the prefixed message at the start of b, which must be a string. ok is false if
// b is too short.
func FirstField(b []byte) (value []byte, ok bool, err error) {
	if len(b) < prefixLen+2 {
		return nil, false, nil
	}
	if b[prefixLen] != 1<<3|2 {
		return nil, false, fmt.Errorf("first field has tag %#x, want a string in field 1", b[prefixLen])
	}
	n, used := binary.Uvarint(b[prefixLen+1:])
	if used <= 0 || n > maxWorkSize {
		return nil, false, fmt.Errorf("bad length in first field")
	}
	at := prefixLen + 1 + used
	if at+int(n) > len(b) {
		return nil, false, nil
	}
	return b[at : at+int(n)], true, nil
}

func prefixed(m []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m)))
	return append(b, m...)
}

// appendField appends a length-delimited field.
func appendField(b []byte, number int, value []byte) []byte {
	b = append(b, byte(number<<3|2))
	b = binary.AppendUvarint(b, uint64(len(value)))
	return append(b, value...)
}

// filler returns a JSON string of size bytes, valid in args_json and in chunks.
func filler(size int) []byte {
	if size < 2 {
		return []byte(strings.Repeat("1", size))
	}
	return []byte(`"` + strings.Repeat("x", size-2) + `"`)
}
