package files

import (
	"io"

	"google.golang.org/grpc"

	"github.com/capgate/capgate/internal/call"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// source reads a file from a capability.
type source struct {
	stream grpc.ServerStreamingClient[docpb.ArtifactChunk]
	name   string // from the capability's first chunk
	typ    string
	begun  bool
}

// next returns the next piece of the file, which may be empty. io.EOF means the end of the file and of a successful
// call. next must not be called after an error.
func (s *source) next() ([]byte, error) {
	c, err := s.stream.Recv()
	if err == io.EOF {
		return nil, cutOff()
	}
	if err != nil {
		return nil, err
	}
	if c.GetError() != "" {
		return nil, refusedByCapability(call.NotFound, c.GetError())
	}
	if !s.begun {
		s.begun, s.name, s.typ = true, c.GetFilename(), c.GetMimeType()
	}
	if !c.GetDone() {
		return c.GetData(), nil
	}
	if _, err := s.stream.Recv(); err == nil {
		return nil, cutOff() // the file continues after its end
	} else if err != io.EOF {
		return nil, err
	}
	return c.GetData(), io.EOF
}
