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

// Size is the size of the file in bytes.
const Size = 256 << 20

// chunkSize is the size of one message's data in bytes, the same as in Selu's orchestrator.
const chunkSize = 256 << 10

// Serve serves the capability on a port of 127.0.0.1. stop ends it and waits.
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
		_ = s.Serve(ln) // returns after Stop
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
			return errors.New("the file is incomplete")
		case err != nil:
			return err
		}
		size += len(c.GetData())
	}
}

// DownloadOutputArtifact implements docpb.CapabilityServer.
func (capability) DownloadOutputArtifact(_ *docpb.DownloadOutputArtifactRequest,
	s grpc.ServerStreamingServer[docpb.ArtifactChunk]) error {
	zeros := make([]byte, chunkSize)
	for left := Size - chunkSize; left >= 0; left -= chunkSize {
		if err := s.Send(&docpb.ArtifactChunk{Data: zeros, Done: left == 0}); err != nil {
			return err
		}
	}
	return nil
}
