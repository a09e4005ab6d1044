package files

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"

	"google.golang.org/grpc"

	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// Size is how long the file is, in bytes.
const Size = 256 << 20

// piece is how much of it is in one message, in bytes, as Selu's orchestrator has it.
const piece = 256 << 10

// Serve serves the capability on a port of 127.0.0.1 until stop, which waits.
func Serve() (addr netip.AddrPort, stop func(), err error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return addr, nil, err
	}
	s := grpc.NewServer()
	docpb.RegisterCapabilityServer(s, capability{})
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = s.Serve(ln) // until it is stopped
	}()
	return ln.Addr().(*net.TCPAddr).AddrPort(), func() { s.Stop(); <-served }, nil
}

type capability struct {
	docpb.UnimplementedCapabilityServer
}

// Healthcheck implements docpb.CapabilityServer.
func (capability) Healthcheck(context.Context, *docpb.HealthRequest) (*docpb.HealthResponse, error) {
	return &docpb.HealthResponse{Ready: true}, nil
}

// UploadInputArtifact implements docpb.CapabilityServer.
func (capability) UploadInputArtifact(s grpc.ClientStreamingServer[docpb.UploadInputArtifactChunk,
	docpb.UploadInputArtifactResponse]) error {
	for size := 0; ; {
		c, err := s.Recv()
		switch {
		case err == io.EOF && size == Size:
			return s.SendAndClose(&docpb.UploadInputArtifactResponse{CapabilityArtifactId: "file"})
		case err == io.EOF:
			return errors.New("the file is not whole")
		case err != nil:
			return err
		}
		size += len(c.GetData())
	}
}

// DownloadOutputArtifact implements docpb.CapabilityServer.
func (capability) DownloadOutputArtifact(_ *docpb.DownloadOutputArtifactRequest,
	s grpc.ServerStreamingServer[docpb.ArtifactChunk]) error {
	zeros := make([]byte, piece)
	for left := Size - piece; left >= 0; left -= piece {
		if err := s.Send(&docpb.ArtifactChunk{Data: zeros, Done: left == 0}); err != nil {
			return err
		}
	}
	return nil
}
