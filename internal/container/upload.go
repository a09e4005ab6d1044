package container

import (
	"context"
	"errors"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/internal/call"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

// File is an artifact.
type File struct {
	Name, MIME string
	Chunks     [][]byte // an empty file is one empty chunk
}

// Uploaded is the response to an upload.
type Uploaded struct {
	ID, Error string
	Size      uint64 // only in the live dialect
}

// Chunk returns a chunk of an upload as the dialect's message; name and type are for the first one.
func (c Client) Chunk(data []byte, name, mime string) proto.Message {
	if c.Dialect == call.Live {
		return &livepb.UploadInputArtifactChunk{Data: data, Filename: name, MimeType: mime}
	}
	return &docpb.UploadInputArtifactChunk{Data: data, Filename: name, MimeType: mime}
}

// Upload sends a file.
func (c Client) Upload(ctx context.Context, f File) (Uploaded, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.Begin(ctx, "UploadInputArtifact")
	if err != nil {
		return Uploaded{}, err
	}
	name, mime := f.Name, f.MIME
	for _, data := range f.Chunks {
		err := stream.SendMsg(c.Chunk(data, name, mime))
		if errors.Is(err, io.EOF) {
			break // the response is there
		}
		if err != nil {
			return Uploaded{}, err
		}
		name, mime = "", ""
	}
	if err := stream.CloseSend(); err != nil {
		return Uploaded{}, err
	}
	if c.Dialect == call.Live {
		reply := new(livepb.UploadInputArtifactResponse)
		err := last(stream.RecvMsg, reply)
		return Uploaded{ID: reply.GetCapabilityArtifactId(), Error: reply.GetError(), Size: reply.GetSizeBytes()}, err
	}
	reply := new(docpb.UploadInputArtifactResponse)
	err = last(stream.RecvMsg, reply)
	return Uploaded{ID: reply.GetCapabilityArtifactId(), Error: reply.GetError()}, err
}

// last receives the only message of a response, and the status.
func last[T proto.Message](receive func(any) error, reply T) error {
	if err := receive(reply); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("the upload ended with OK and without a response")
		}
		return err
	}
	if err := receive(reply.ProtoReflect().New().Interface()); !errors.Is(err, io.EOF) {
		if err == nil {
			return errors.New("the upload has more than one response")
		}
		return err
	}
	return nil
}
