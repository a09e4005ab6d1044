package grpctest

import (
	"errors"
	"io"
	"testing"

	"google.golang.org/grpc/codes"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/capgate/capgate/internal/testkit/check"
)

// Reflected is server reflection whose files may be wrong. It must not be changed after the start of a Server.
type Reflected struct {
	Files   map[string][]byte     // by name
	Symbols map[string]string     // service → file
	End     map[string]error      // symbols and files for which the stream ends
	Refuse  map[string]codes.Code // symbols and files for which the response is an error
}

// NewReflected returns reflection with the files of Descriptors.
func NewReflected(t testing.TB) *Reflected {
	t.Helper()
	r := &Reflected{Files: map[string][]byte{}, Symbols: map[string]string{}, End: map[string]error{},
		Refuse: map[string]codes.Code{}}
	set := &descriptorpb.FileDescriptorSet{}
	check.Must(t, proto.Unmarshal(Descriptors, set))
	for _, file := range set.GetFile() {
		text, err := proto.Marshal(file)
		check.Must(t, err)
		r.Files[file.GetName()] = text
		for _, s := range file.GetService() {
			r.Symbols[file.GetPackage()+"."+s.GetName()] = file.GetName()
		}
	}
	return r
}

// Answer implements Options.Reflect.
func (r *Reflected) Answer(stream reflectionpb.ServerReflection_ServerReflectionInfoServer) error {
	for {
		q, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		reply, err := r.reply(q)
		if err != nil {
			return err
		}
		if err := stream.Send(reply); err != nil {
			return err
		}
	}
}

// reply returns the response to a request, or the end of the stream.
func (r *Reflected) reply(q *reflectionpb.ServerReflectionRequest) (*reflectionpb.ServerReflectionResponse, error) {
	reply := &reflectionpb.ServerReflectionResponse{OriginalRequest: q}
	if _, lists := q.GetMessageRequest().(*reflectionpb.ServerReflectionRequest_ListServices); lists {
		list := &reflectionpb.ListServiceResponse{}
		for service := range r.Symbols {
			list.Service = append(list.Service, &reflectionpb.ServiceResponse{Name: service})
		}
		reply.MessageResponse = &reflectionpb.ServerReflectionResponse_ListServicesResponse{ListServicesResponse: list}
		return reply, nil
	}
	symbol, name := q.GetFileContainingSymbol(), q.GetFileByFilename()
	if symbol != "" {
		name = r.Symbols[symbol]
	}
	text, there := r.Files[name]
	switch code := max(r.Refuse[symbol], r.Refuse[name]); {
	case r.End[symbol] != nil:
		return nil, r.End[symbol]
	case r.End[name] != nil:
		return nil, r.End[name]
	case code != codes.OK, !there:
		if code == codes.OK {
			code = codes.NotFound
		}
		reply.MessageResponse = &reflectionpb.ServerReflectionResponse_ErrorResponse{
			ErrorResponse: &reflectionpb.ErrorResponse{ErrorCode: int32(code), //nolint:gosec // a code
				ErrorMessage: "cannot build " + name}}
	default:
		reply.MessageResponse = &reflectionpb.ServerReflectionResponse_FileDescriptorResponse{
			FileDescriptorResponse: &reflectionpb.FileDescriptorResponse{FileDescriptorProto: [][]byte{text}}}
	}
	return reply, nil
}
