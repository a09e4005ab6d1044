package gatewaytest

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/call"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// Client is a client of a capability in one dialect, with one set of messages for both.
type Client interface {
	Invoke(ctx context.Context, req *docpb.InvokeRequest, opts ...grpc.CallOption) (*docpb.InvokeResponse, error)
	StreamInvoke(ctx context.Context, req *docpb.InvokeRequest, opts ...grpc.CallOption) ([]*docpb.InvokeChunk, error)
	Healthcheck(ctx context.Context, opts ...grpc.CallOption) (ready bool, message string, err error)
	Upload(ctx context.Context, f File, opts ...grpc.CallOption) (Uploaded, error)
	Download(ctx context.Context, id string, opts ...grpc.CallOption) (File, error)
}

// Uploaded is the response to an upload.
type Uploaded struct {
	ID, Error string
	Size      uint64 // only in the live dialect
}

// NewClient returns a client of a dialect; Auto is doc.
func NewClient(conn grpc.ClientConnInterface, d call.Dialect) Client {
	switch d {
	case call.Live:
		return liveClient{livepb.NewCapabilityClient(conn)}
	case call.Legacy:
		return legacyClient{legacypb.NewCapabilityServiceClient(conn), conn}
	}
	return docClient{docpb.NewCapabilityClient(conn)}
}

type docClient struct{ docpb.CapabilityClient }

func (c docClient) StreamInvoke(ctx context.Context, req *docpb.InvokeRequest,
	opts ...grpc.CallOption) ([]*docpb.InvokeChunk, error) {
	stream, err := c.CapabilityClient.StreamInvoke(ctx, req, opts...)
	return collect(stream, err)
}

func (c docClient) Healthcheck(ctx context.Context, opts ...grpc.CallOption) (bool, string, error) {
	resp, err := c.CapabilityClient.Healthcheck(ctx, &docpb.HealthRequest{}, opts...)
	return resp.GetReady(), resp.GetMessage(), err
}

func (c docClient) Upload(ctx context.Context, f File, opts ...grpc.CallOption) (Uploaded, error) {
	stream, err := c.UploadInputArtifact(ctx, opts...)
	resp, err := send(stream, err, f, func(data []byte, name, mime string) *docpb.UploadInputArtifactChunk {
		return &docpb.UploadInputArtifactChunk{Data: data, Filename: name, MimeType: mime}
	})
	return Uploaded{ID: resp.GetCapabilityArtifactId(), Error: resp.GetError()}, err
}

func (c docClient) Download(ctx context.Context, id string, opts ...grpc.CallOption) (File, error) {
	stream, err := c.DownloadOutputArtifact(ctx, &docpb.DownloadOutputArtifactRequest{ArtifactId: id}, opts...)
	parts, err := collect(stream, err)
	return join(parts, err)
}

type liveClient struct{ c livepb.CapabilityClient }

func (c liveClient) Invoke(ctx context.Context, req *docpb.InvokeRequest,
	opts ...grpc.CallOption) (*docpb.InvokeResponse, error) {
	resp, err := c.c.Invoke(ctx, as[livepb.InvokeRequest](req), opts...)
	if err != nil {
		return nil, err
	}
	return as[docpb.InvokeResponse](resp), nil
}

func (c liveClient) StreamInvoke(ctx context.Context, req *docpb.InvokeRequest,
	opts ...grpc.CallOption) ([]*docpb.InvokeChunk, error) {
	stream, err := c.c.StreamInvoke(ctx, as[livepb.InvokeRequest](req), opts...)
	parts, err := collect(stream, err)
	var out []*docpb.InvokeChunk
	for _, p := range parts {
		out = append(out, as[docpb.InvokeChunk](p))
	}
	return out, err
}

func (c liveClient) Healthcheck(ctx context.Context, opts ...grpc.CallOption) (bool, string, error) {
	resp, err := c.c.Healthcheck(ctx, &livepb.HealthRequest{}, opts...)
	return resp.GetReady(), resp.GetMessage(), err
}

func (c liveClient) Upload(ctx context.Context, f File, opts ...grpc.CallOption) (Uploaded, error) {
	stream, err := c.c.UploadInputArtifact(ctx, opts...)
	resp, err := send(stream, err, f, func(data []byte, name, mime string) *livepb.UploadInputArtifactChunk {
		return &livepb.UploadInputArtifactChunk{Data: data, Filename: name, MimeType: mime}
	})
	return Uploaded{ID: resp.GetCapabilityArtifactId(), Error: resp.GetError(), Size: resp.GetSizeBytes()}, err
}

func (c liveClient) Download(ctx context.Context, id string, opts ...grpc.CallOption) (File, error) {
	stream, err := c.c.DownloadOutputArtifact(ctx, &livepb.DownloadOutputArtifactRequest{CapabilityArtifactId: id},
		opts...)
	parts, err := collect(stream, err)
	var out []*docpb.ArtifactChunk
	for _, p := range parts {
		out = append(out, as[docpb.ArtifactChunk](p))
	}
	return join(out, err)
}

// collect reads a stream to its end.
func collect[T any](stream grpc.ServerStreamingClient[T], err error) ([]*T, error) {
	if err != nil {
		return nil, err
	}
	var all []*T
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
}

// send uploads a file like the orchestrator: the name is only in the first chunk, and an empty file is one empty chunk.
func send[C, R any](stream grpc.ClientStreamingClient[C, R], err error, f File,
	chunk func(data []byte, name, mime string) *C) (*R, error) {
	if err != nil {
		return nil, err
	}
	name, mime := f.Name, f.MIME
	for rest := f.Data; ; name, mime = "", "" {
		n := min(len(rest), chunkBytes)
		if err := stream.Send(chunk(rest[:n], name, mime)); err != nil {
			break // CloseAndRecv returns the status
		}
		if rest = rest[n:]; len(rest) == 0 {
			break
		}
	}
	return stream.CloseAndRecv()
}

// errCutOff is the error of a download without its last chunk.
var errCutOff = errors.New("the file is cut off")

func join(parts []*docpb.ArtifactChunk, err error) (File, error) {
	if err != nil {
		return File{}, err
	}
	var f File
	for i, p := range parts {
		if i == 0 {
			f.Name, f.MIME = p.GetFilename(), p.GetMimeType()
		}
		f.Data = append(f.Data, p.GetData()...)
		if p.GetError() != "" {
			return f, errors.New(p.GetError())
		}
		if p.GetDone() {
			return f, nil
		}
	}
	return f, errCutOff
}
