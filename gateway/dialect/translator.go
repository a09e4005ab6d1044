package dialect

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // clients may compress; what is not translated passes compressed too

	docpb "github.com/capgate/capgate/proto/selu/capability"
	livepb "github.com/capgate/capgate/proto/selu/capability/v1"
)

// maxMessage bounds one message, in bytes: the largest that Selu's orchestrator takes.
const maxMessage = 16 << 20

// NewServer returns the translator: a gRPC server of the doc and the live dialect that
// answers UploadInputArtifact, the one RPC in which they differ, by making the same
// call over conn in the other dialect. All its other RPCs are UNIMPLEMENTED.
//
// Chunks go through one by one and are never gathered; metadata, authority, deadline and
// cancellation go along, and the status of the far side comes back as it is. conn is to
// lead back to the gateway itself, where such a call is identified, decided and routed
// like any other. opts are applied after the translator's own.
func NewServer(conn grpc.ClientConnInterface, opts ...grpc.ServerOption) *grpc.Server {
	srv := grpc.NewServer(append([]grpc.ServerOption{grpc.MaxRecvMsgSize(maxMessage)}, opts...)...)
	docpb.RegisterCapabilityServer(srv, &docSide{live: livepb.NewCapabilityClient(conn)})
	livepb.RegisterCapabilityServer(srv, &liveSide{doc: docpb.NewCapabilityClient(conn)})
	return srv
}

// docSide serves clients of the doc dialect from backends of the live one.
type docSide struct {
	docpb.UnimplementedCapabilityServer
	live livepb.CapabilityClient
}

func (s *docSide) UploadInputArtifact(in grpc.ClientStreamingServer[docpb.UploadInputArtifactChunk, docpb.UploadInputArtifactResponse]) error {
	return upload(in, s.live.UploadInputArtifact,
		func(c *docpb.UploadInputArtifactChunk) (*livepb.UploadInputArtifactChunk, int) {
			return &livepb.UploadInputArtifactChunk{Filename: c.GetFilename(), MimeType: c.GetMimeType(), Data: c.GetData()}, len(c.GetData())
		},
		func(r *livepb.UploadInputArtifactResponse, _ uint64) *docpb.UploadInputArtifactResponse {
			return &docpb.UploadInputArtifactResponse{CapabilityArtifactId: r.GetCapabilityArtifactId(), Error: r.GetError()}
		})
}

// liveSide serves clients of the live dialect from backends of the doc one.
type liveSide struct {
	livepb.UnimplementedCapabilityServer
	doc docpb.CapabilityClient
}

func (s *liveSide) UploadInputArtifact(in grpc.ClientStreamingServer[livepb.UploadInputArtifactChunk, livepb.UploadInputArtifactResponse]) error {
	return upload(in, s.doc.UploadInputArtifact,
		func(c *livepb.UploadInputArtifactChunk) (*docpb.UploadInputArtifactChunk, int) {
			return &docpb.UploadInputArtifactChunk{Filename: c.GetFilename(), MimeType: c.GetMimeType(), Data: c.GetData()}, len(c.GetData())
		},
		func(r *docpb.UploadInputArtifactResponse, sent uint64) *livepb.UploadInputArtifactResponse {
			if r.GetError() != "" {
				sent = 0
			}
			return &livepb.UploadInputArtifactResponse{CapabilityArtifactId: r.GetCapabilityArtifactId(), SizeBytes: sent, Error: r.GetError()}
		})
}

// upload carries one upload from in to the call that open makes. chunk translates what
// the client sends and says how many bytes of the file it holds; reply translates the
// answer, given the bytes of the file that were sent on.
func upload[InChunk, InReply, OutChunk, OutReply any](
	in grpc.ClientStreamingServer[InChunk, InReply],
	open func(context.Context, ...grpc.CallOption) (grpc.ClientStreamingClient[OutChunk, OutReply], error),
	chunk func(*InChunk) (*OutChunk, int),
	reply func(*OutReply, uint64) *InReply,
) error {
	ctx, opts := outgoing(in.Context())
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, err := open(ctx, append(opts, grpc.MaxCallRecvMsgSize(maxMessage))...)
	if err != nil {
		return err
	}

	// The answer may come before the client is through, so the chunks go in a goroutine
	// of their own. It ends with the call: gRPC ends in.Recv when this function returns.
	var sent atomic.Uint64
	broken := make(chan error, 1) // why the client's side ended the upload
	go func() {
		if err := pump(in, out, chunk, &sent); err != nil {
			broken <- err
			cancel()
		}
	}()

	answer := new(OutReply)
	err = out.RecvMsg(answer)
	in.SetTrailer(custom(out.Trailer()))
	if err != nil {
		select {
		case err = <-broken: // the far side only saw us cancel
		default:
		}
		return err
	}
	if h, err := out.Header(); err == nil {
		if err := in.SetHeader(custom(h)); err != nil {
			return err
		}
	}
	return in.SendAndClose(reply(answer, sent.Load()))
}

// pump sends on what the client sends until either side ends. An error is the client's;
// the far side's comes out of its RecvMsg.
func pump[InChunk, InReply, OutChunk, OutReply any](
	in grpc.ClientStreamingServer[InChunk, InReply],
	out grpc.ClientStreamingClient[OutChunk, OutReply],
	chunk func(*InChunk) (*OutChunk, int),
	sent *atomic.Uint64,
) error {
	for {
		c, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return out.CloseSend()
		}
		if err != nil {
			return err
		}
		o, n := chunk(c)
		sent.Add(uint64(n))
		if err := out.Send(o); err != nil {
			return nil // the far side has ended; RecvMsg says how
		}
	}
}
