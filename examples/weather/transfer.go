package weather

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	docpb "github.com/capgate/capgate/proto/selu/capability"
)

const (
	chunkBytes    = 256 << 10 // the orchestrator's chunk size
	maxLabelBytes = 255       // longer file names and MIME types are truncated
)

// UploadInputArtifact stores a file. A problem with the file is in the response's error, with gRPC status OK; only a
// broken stream is a gRPC error.
func (s *Server) UploadInputArtifact(stream docpb.Capability_UploadInputArtifactServer) error {
	up := upload{store: s.artifacts, maxBytes: s.maxUpload}
	defer up.abandon()
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := up.take(chunk); err != nil {
			// The response ends the call without waiting for the rest of the file.
			return stream.SendAndClose(&docpb.UploadInputArtifactResponse{Error: err.Error()})
		}
	}
	a, err := up.finish()
	if err != nil {
		return stream.SendAndClose(&docpb.UploadInputArtifactResponse{Error: err.Error()})
	}
	return stream.SendAndClose(&docpb.UploadInputArtifactResponse{CapabilityArtifactId: a.id})
}

// upload is a file that is being received.
type upload struct {
	store    *artifactStore
	maxBytes int

	started            bool
	filename, mimeType string
	data               []byte // len(data) bytes are reserved in store
}

// take appends a chunk. The first one names the file, and may be empty.
func (u *upload) take(chunk *docpb.UploadInputArtifactChunk) error {
	if !u.started {
		u.started = true
		u.filename, u.mimeType = chunk.GetFilename(), chunk.GetMimeType()
	}
	n := len(chunk.GetData())
	if len(u.data)+n > u.maxBytes {
		return fmt.Errorf("the file is larger than %d bytes", u.maxBytes)
	}
	if err := u.store.reserve(n); err != nil {
		return err
	}
	u.data = append(u.data, chunk.GetData()...)
	return nil
}

func (u *upload) finish() (*artifact, error) {
	if !u.started {
		return nil, errors.New("the upload carried no chunk; send one, even for an empty file")
	}
	a := u.store.add(baseName(u.filename), label(u.mimeType, "application/octet-stream"), u.data)
	u.data = nil // owned by the store from here on
	return a, nil
}

// abandon releases the reservation of an unfinished upload.
func (u *upload) abandon() { u.store.release(len(u.data)) }

// DownloadOutputArtifact sends a file: its name and type on the first chunk, done on the last. An empty file is one
// empty chunk.
func (s *Server) DownloadOutputArtifact(req *docpb.DownloadOutputArtifactRequest,
	stream docpb.Capability_DownloadOutputArtifactServer) error {
	a := s.artifacts.get(req.GetArtifactId())
	if a == nil {
		return stream.Send(&docpb.ArtifactChunk{Done: true, Error: "no such artifact, or it has expired"})
	}
	chunk := &docpb.ArtifactChunk{Filename: a.filename, MimeType: a.mimeType}
	for rest := a.data; ; chunk = new(docpb.ArtifactChunk) {
		n := min(len(rest), chunkBytes)
		chunk.Data, rest = rest[:n], rest[n:]
		chunk.Done = len(rest) == 0
		if err := stream.Send(chunk); err != nil || chunk.GetDone() {
			return err
		}
	}
}

// baseName returns the last element of a path in either slash, never empty.
func baseName(filename string) string {
	base := path.Base(strings.ReplaceAll(filename, `\`, "/"))
	if base == "." || base == "/" || base == ".." {
		base = ""
	}
	return label(base, "upload")
}

// label returns s, truncated, or fallback if s is empty.
func label(s, fallback string) string {
	if len(s) > maxLabelBytes {
		s = strings.ToValidUTF8(s[:maxLabelBytes], "")
	}
	if s == "" {
		return fallback
	}
	return s
}
