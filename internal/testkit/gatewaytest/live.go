package gatewaytest

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

// live serves a Capability in the live dialect.
type live struct {
	livepb.UnimplementedCapabilityServer
	c *Capability
}

// as converts a message of one dialect to the other's by its bytes. Uploads are converted by field.
func as[T any, P interface {
	*T
	proto.Message
}](from proto.Message) P {
	to := P(new(T))
	b, err := proto.Marshal(from)
	if err == nil {
		err = proto.Unmarshal(b, to)
	}
	if err != nil {
		panic(err) // messages that were just received or created are valid
	}
	return to
}

func (l live) Invoke(ctx context.Context, req *livepb.InvokeRequest) (*livepb.InvokeResponse, error) {
	resp, err := l.c.Invoke(ctx, as[docpb.InvokeRequest](req))
	if err != nil {
		return nil, err
	}
	return as[livepb.InvokeResponse](resp), nil
}

func (l live) StreamInvoke(req *livepb.InvokeRequest, stream grpc.ServerStreamingServer[livepb.InvokeChunk]) error {
	return l.c.StreamInvoke(as[docpb.InvokeRequest](req),
		chunks[docpb.InvokeChunk]{stream, func(chunk *docpb.InvokeChunk) error {
			return stream.Send(as[livepb.InvokeChunk](chunk))
		}})
}

func (l live) Healthcheck(context.Context, *livepb.HealthRequest) (*livepb.HealthResponse, error) {
	return &livepb.HealthResponse{Ready: true}, nil
}

func (l live) UploadInputArtifact(stream grpc.ClientStreamingServer[livepb.UploadInputArtifactChunk,
	livepb.UploadInputArtifactResponse]) error {
	if err := l.c.see(stream.Context(), nil); err != nil {
		return err
	}
	var f File
	for first := true; ; first = false {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if first {
			f.Name, f.MIME = chunk.GetFilename(), chunk.GetMimeType()
		}
		f.Data = append(f.Data, chunk.GetData()...)
	}
	if err := l.c.file(stream.Context(), f.Name); err != nil {
		return err
	}
	id, failure := l.c.keep(f)
	reply := &livepb.UploadInputArtifactResponse{CapabilityArtifactId: id, Error: failure}
	if failure == "" {
		reply.SizeBytes = uint64(len(f.Data))
	}
	return stream.SendAndClose(reply)
}

func (l live) DownloadOutputArtifact(req *livepb.DownloadOutputArtifactRequest,
	stream grpc.ServerStreamingServer[livepb.ArtifactChunk]) error {
	return l.c.DownloadOutputArtifact(as[docpb.DownloadOutputArtifactRequest](req),
		chunks[docpb.ArtifactChunk]{stream, func(chunk *docpb.ArtifactChunk) error {
			return stream.Send(as[livepb.ArtifactChunk](chunk))
		}})
}

// chunks is a stream of the doc dialect that forwards its chunks.
type chunks[T any] struct {
	grpc.ServerStream
	send func(*T) error
}

func (c chunks[T]) Send(m *T) error { return c.send(m) }
