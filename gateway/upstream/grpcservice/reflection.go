package grpcservice

import (
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/lib/grpcerror"
)

// reflectionPaths are the methods of server reflection, the newest first. Their messages are the same.
var reflectionPaths = [...]string{ //nolint:gochecknoglobals // a table
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
}

var errNoReflection = errors.New("the backend has no server reflection (grpc.reflection.v1); enable it there, or set " +
	"grpc_service.descriptor_file")

// reflection asks a backend for its descriptors. It asks for one thing at a time and takes one response for each.
type reflection struct {
	stream grpc.ClientStream
	files  map[string]*descriptorpb.FileDescriptorProto
	wanted []string // imports of files, which may be there already
	size   int      // bytes of all files
	costs  *measure // of all files
}

// withReflection runs a conversation in the newest version that the backend has.
func withReflection(ctx context.Context, conn grpc.ClientConnInterface, maxMessage int,
	talk func(*reflection) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, path := range reflectionPaths {
		stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, path,
			grpc.MaxCallRecvMsgSize(maxMessage))
		if err == nil {
			err = talk(&reflection{stream: stream, files: map[string]*descriptorpb.FileDescriptorProto{},
				costs: newMeasure(ctx, nil, maxDecoded)})
		}
		if !grpcerror.Unimplemented(err) {
			return err
		}
	}
	return errNoReflection
}

// reflect asks for the files, sorted by name, that have the services of a list of methods. Services that the backend does not have are
// left out.
func reflect(ctx context.Context, conn grpc.ClientConnInterface, methods []string) (
	[]*descriptorpb.FileDescriptorProto, error) {
	var found map[string]*descriptorpb.FileDescriptorProto
	err := withReflection(ctx, conn, maxDescriptors, func(r *reflection) error {
		found = r.files
		return r.services(methods)
	})
	if err != nil {
		return nil, err
	}
	all := make([]*descriptorpb.FileDescriptorProto, 0, len(found))
	for _, file := range found {
		all = append(all, file)
	}
	slices.SortFunc(all, func(a, b *descriptorpb.FileDescriptorProto) int {
		return strings.Compare(a.GetName(), b.GetName())
	})
	return all, nil
}

// services asks for services, and for the imports of their files.
func (r *reflection) services(methods []string) error {
	asked := map[string]bool{}
	for _, entry := range methods {
		service, _, _ := strings.Cut(entry, "/")
		if asked[service] {
			continue
		}
		asked[service] = true
		err := r.ask(&reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service}})
		if err != nil && status.Code(err) != codes.NotFound {
			return err
		}
	}
	for len(r.wanted) > 0 {
		name := r.wanted[0]
		r.wanted = r.wanted[1:]
		if r.files[name] != nil || ownFile(name) != nil {
			continue
		}
		err := r.ask(&reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_FileByFilename{FileByFilename: name}})
		if err != nil {
			return err
		}
		if r.files[name] == nil {
			return status.Errorf(codes.Internal, "the backend's server reflection has no file %.100q, which another one imports",
				name)
		}
	}
	return nil
}

// ask sends one request, and takes the files of its response.
func (r *reflection) ask(request *reflectionpb.ServerReflectionRequest) error {
	response, err := r.exchange(request)
	if err != nil {
		return err
	}
	if failed := response.GetErrorResponse(); failed != nil {
		code := codes.Code(failed.GetErrorCode()) //nolint:gosec // an unknown code is passed on
		if code == codes.OK {
			code = codes.Unknown
		}
		return status.Errorf(code, "the backend's server reflection: %s", upstream.Clip(failed.GetErrorMessage(), maxText))
	}
	for _, text := range response.GetFileDescriptorResponse().GetFileDescriptorProto() {
		if r.size += len(text); r.size > maxDescriptors {
			return status.Errorf(codes.Internal, "the backend's server reflection has more than %d bytes", maxDescriptors)
		}
		if len(r.files) >= maxFiles {
			return status.Errorf(codes.Internal, "the backend's server reflection has more than %d files", maxFiles)
		}
		file := &descriptorpb.FileDescriptorProto{}
		if err := r.costs.message(text, file.ProtoReflect().Descriptor(), 0); errors.Is(err, errLarge) {
			return status.Errorf(codes.Internal, "the backend's server reflection %v", errCostly)
		}
		if err := proto.Unmarshal(text, file); err != nil {
			return status.Error(codes.Internal, "the backend's server reflection sends a file that is none")
		}
		if r.files[file.GetName()] == nil {
			r.files[file.GetName()] = file
			r.wanted = append(r.wanted, file.GetDependency()...)
		}
	}
	return nil
}

func (r *reflection) exchange(request *reflectionpb.ServerReflectionRequest) (
	*reflectionpb.ServerReflectionResponse, error) {
	if err := r.stream.SendMsg(request); err != nil {
		// The status of the stream is that of RecvMsg.
		if err = r.stream.RecvMsg(&reflectionpb.ServerReflectionResponse{}); err != nil {
			return nil, err
		}
		return nil, status.Error(codes.Internal, "the backend's server reflection ended")
	}
	response := &reflectionpb.ServerReflectionResponse{}
	if err := r.stream.RecvMsg(response); err != nil {
		return nil, err
	}
	return response, nil
}
