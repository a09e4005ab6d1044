package selu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

// File is an input or output file of a call.
type File struct {
	Name string
	MIME string
	Data []byte
}

// Upload sends a file and returns the id by which arguments refer to it.
func (c *Client) Upload(ctx context.Context, f File) (id string, err error) {
	err = c.try(ctx, func(ctx context.Context) error {
		stream, err := c.rpc.UploadInputArtifact(ctx)
		if err != nil {
			return err
		}
		chunk := &livepb.UploadInputArtifactChunk{Filename: f.Name, MimeType: f.MIME}
		for rest := f.Data; ; chunk = new(livepb.UploadInputArtifactChunk) {
			n := min(len(rest), chunkSize)
			chunk.Data, rest = rest[:n], rest[n:]
			if stream.Send(chunk) != nil || len(rest) == 0 {
				break // CloseAndRecv returns the error
			}
		}
		resp, err := stream.CloseAndRecv()
		switch {
		case err != nil:
			return err
		case resp.GetError() != "":
			return fmt.Errorf("upload of %s: %s", f.Name, resp.GetError())
		case resp.GetCapabilityArtifactId() == "":
			return fmt.Errorf("upload of %s: the response has no id", f.Name)
		}
		id = resp.GetCapabilityArtifactId()
		return nil
	})
	return id, err
}

// Download fetches a file that a result refers to.
func (c *Client) Download(ctx context.Context, id string) (f File, err error) {
	err = c.try(ctx, func(ctx context.Context) error {
		stream, err := c.rpc.DownloadOutputArtifact(ctx,
			&livepb.DownloadOutputArtifactRequest{CapabilityArtifactId: id})
		if err != nil {
			return err
		}
		f, err = receive(stream.Recv)
		return err
	})
	return f, err
}

func receive(next func() (*livepb.ArtifactChunk, error)) (f File, err error) {
	var data bytes.Buffer
	for first, done := true, false; !done; first = false {
		chunk, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return f, err
		}
		if chunk.GetError() != "" {
			return f, errors.New(chunk.GetError())
		}
		if first {
			f.Name, f.MIME = chunk.GetFilename(), chunk.GetMimeType()
		}
		if data.Write(chunk.GetData()); data.Len() > maxDownload {
			return f, fmt.Errorf("the file is larger than %d bytes", maxDownload)
		}
		done = chunk.GetDone()
	}
	if f.Data = data.Bytes(); len(f.Data) == 0 {
		return f, errors.New("the file is empty")
	}
	return f, nil
}
