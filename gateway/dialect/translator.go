package dialect

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress; untranslated calls also pass compressed

	"github.com/capgate/capgate/internal/call"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// maxMessage is the maximum size of a message, in bytes, as in Selu's orchestrator.
const maxMessage = 16 << 20

// Refuse returns the error for the caller of the call of ctx, for a refusal by the translator.
type Refuse func(ctx context.Context, refusal *call.Refusal) error

// Codec returns the codec of the translator's messages: protobuf, and unchanged chunks of uploads.
func Codec() encoding.CodecV2 { return newCodec() }

// Register adds the translator to a server whose codec is Codec: the services of all dialects, which serve the RPCs in
// which they differ by making the same call over conn in another dialect. All their other RPCs are UNIMPLEMENTED.
//
//	UploadInputArtifact   doc ↔ live
//	Invoke                doc, live → legacy; legacy → doc, which has the bytes of live
//	StreamInvoke          doc, live → Invoke of legacy
//
// One message of each call is in memory at a time. Metadata, authority, deadline and cancellation are forwarded, and
// the backend's status is returned unchanged. conn continues the call in the gateway.
func Register(to grpc.ServiceRegistrar, conn grpc.ClientConnInterface, refuse Refuse) {
	doc := docpb.NewCapabilityClient(conn)
	legacy := &toLegacy{client: legacypb.NewCapabilityServiceClient(conn), refuse: refuse}
	docpb.RegisterCapabilityServer(to, &docSide{live: livepb.NewCapabilityClient(conn), legacy: legacy, refuse: refuse})
	livepb.RegisterCapabilityServer(to, &liveSide{doc: doc, legacy: legacy, refuse: refuse})
	legacypb.RegisterCapabilityServiceServer(to, &legacySide{doc: doc, refuse: refuse})
}

// docSide serves clients with the doc dialect through backends of the other dialects.
type docSide struct {
	docpb.UnimplementedCapabilityServer
	live   livepb.CapabilityClient
	legacy *toLegacy
	refuse Refuse
}

func (s *docSide) Invoke(ctx context.Context, req *docpb.InvokeRequest) (*docpb.InvokeResponse, error) {
	result, failure, err := s.legacy.invoke(ctx, req)
	if err != nil {
		return nil, err
	}
	return &docpb.InvokeResponse{ResultJson: result, Error: failure}, nil
}

func (s *docSide) StreamInvoke(req *docpb.InvokeRequest, stream grpc.ServerStreamingServer[docpb.InvokeChunk]) error {
	result, failure, err := s.legacy.invoke(stream.Context(), req)
	if err != nil {
		return err
	}
	return stream.Send(&docpb.InvokeChunk{Data: result, Error: failure, Done: true})
}

func (s *docSide) UploadInputArtifact(in grpc.ClientStreamingServer[docpb.UploadInputArtifactChunk,
	docpb.UploadInputArtifactResponse]) error {
	return upload(in, s.refuse, s.live.UploadInputArtifact,
		func(c *docpb.UploadInputArtifactChunk) (*livepb.UploadInputArtifactChunk, int) {
			return &livepb.UploadInputArtifactChunk{Filename: c.GetFilename(), MimeType: c.GetMimeType(),
					Data: c.GetData()},
				len(c.GetData())
		},
		func(r *livepb.UploadInputArtifactResponse, _ uint64) *docpb.UploadInputArtifactResponse {
			return &docpb.UploadInputArtifactResponse{CapabilityArtifactId: r.GetCapabilityArtifactId(),
				Error: r.GetError()}
		})
}

// liveSide serves clients with the live dialect through backends of the other dialects.
type liveSide struct {
	livepb.UnimplementedCapabilityServer
	doc    docpb.CapabilityClient
	legacy *toLegacy
	refuse Refuse
}

func (s *liveSide) Invoke(ctx context.Context, req *livepb.InvokeRequest) (*livepb.InvokeResponse, error) {
	result, failure, err := s.legacy.invoke(ctx, req)
	if err != nil {
		return nil, err
	}
	return &livepb.InvokeResponse{ResultJson: result, Error: failure}, nil
}

func (s *liveSide) StreamInvoke(req *livepb.InvokeRequest,
	stream grpc.ServerStreamingServer[livepb.InvokeChunk]) error {
	result, failure, err := s.legacy.invoke(stream.Context(), req)
	if err != nil {
		return err
	}
	return stream.Send(&livepb.InvokeChunk{Data: result, Error: failure, Done: true})
}

func (s *liveSide) UploadInputArtifact(in grpc.ClientStreamingServer[livepb.UploadInputArtifactChunk,
	livepb.UploadInputArtifactResponse]) error {
	return upload(in, s.refuse, s.doc.UploadInputArtifact,
		func(c *livepb.UploadInputArtifactChunk) (*docpb.UploadInputArtifactChunk, int) {
			return &docpb.UploadInputArtifactChunk{Filename: c.GetFilename(), MimeType: c.GetMimeType(),
					Data: c.GetData()},
				len(c.GetData())
		},
		func(r *docpb.UploadInputArtifactResponse, sent uint64) *livepb.UploadInputArtifactResponse {
			if r.GetError() != "" {
				sent = 0
			}
			return &livepb.UploadInputArtifactResponse{CapabilityArtifactId: r.GetCapabilityArtifactId(),
				SizeBytes: sent, Error: r.GetError()}
		})
}
