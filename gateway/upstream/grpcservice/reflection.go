package grpcservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/capgate/capgate/internal/lib/grpcerror"
	"github.com/capgate/capgate/internal/lib/untrusted"
)

// reflectionPaths lists the methods of server reflection, newest first. Their messages are the same.
var reflectionPaths = [...]string{ //nolint:gochecknoglobals // a table
	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
}

var errNoReflection = errors.New("the backend has no server reflection (grpc.reflection.v1); enable it there, or set " +
	"grpc_service.descriptor_file")

const (
	// maxEnded is the maximum number of streams that a backend may end in a conversation, such as for unreadable files.
	maxEnded = 8
	ours     = "the backend's server reflection"
)

// reflection requests descriptors from a backend, one at a time, with one response for each. An error of a file is
// recorded with its name, and the others are read.
type reflection struct {
	ctx    context.Context //nolint:containedctx // of one conversation
	open   func() (grpc.ClientStream, error)
	stream grpc.ClientStream // nil means none, or that it has ended
	ended  int               // number of streams ended by the backend
	failed error             // error of the first of them
	lost   bool              // no stream could be opened
	files  map[string]*descriptorpb.FileDescriptorProto
	broken map[string]error // files that could not be read
	wanted []string         // imports of files, which may already be present
	size   int              // bytes of all files
	wasted int              // bytes of files that were already present, or exceeded a limit
	left   int              // remaining memory for decoded files, in bytes
}

// withReflection runs a conversation in the newest version that the backend supports.
func withReflection(ctx context.Context, conn grpc.ClientConnInterface, maxMessage int,
	talk func(*reflection) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, path := range reflectionPaths {
		err := talk(&reflection{ctx: ctx, files: map[string]*descriptorpb.FileDescriptorProto{}, left: maxDecoded,
			broken: map[string]error{}, open: func() (grpc.ClientStream, error) {
				return conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, path,
					grpc.MaxCallRecvMsgSize(maxMessage))
			}})
		if !grpcerror.Unimplemented(err) {
			return err
		}
	}
	return errNoReflection
}

// reflect requests the files with the services of a list of methods, and their imports. The error is that of the
// conversation.
func reflect(ctx context.Context, conn grpc.ClientConnInterface, methods []string) (*descriptors, error) {
	d := &descriptors{asked: map[string]symbol{}}
	err := withReflection(ctx, conn, maxDescriptors, func(r *reflection) error {
		if err := r.services(methods, d.asked); err != nil {
			return err
		}
		if err := r.imports(); err != nil {
			return err
		}
		if len(r.files)+len(r.broken) == 0 && r.failed != nil {
			return r.failed
		}
		d.broken = r.broken
		for _, name := range slices.Sorted(maps.Keys(r.files)) {
			d.files = append(d.files, r.files[name])
		}
		return nil
	})
	return d, err
}

// services requests the files with services.
func (r *reflection) services(methods []string, asked map[string]symbol) error {
	clear(asked)
	for _, entry := range methods {
		service, _, _ := strings.Cut(entry, "/")
		if _, again := asked[service]; again {
			continue
		}
		file, err := r.ask(&reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service}})
		if r.over(err) {
			return err
		}
		asked[service] = symbol{file: file}
		if err != nil && !isAbsent(err) {
			asked[service] = symbol{err: fmt.Errorf("could not be read: %s", inWords(err))}
		}
	}
	return nil
}

// imports requests the imports of files.
func (r *reflection) imports() error {
	for len(r.wanted) > 0 {
		name := r.wanted[0]
		r.wanted = r.wanted[1:]
		if r.files[name] != nil || r.broken[name] != nil || ownFile(name) != nil {
			continue
		}
		_, err := r.ask(&reflectionpb.ServerReflectionRequest{
			MessageRequest: &reflectionpb.ServerReflectionRequest_FileByFilename{FileByFilename: name}})
		switch {
		case r.over(err):
			return err
		case r.files[name] != nil || r.broken[name] != nil:
		case err == nil, isAbsent(err):
			r.broken[name] = errors.New("is missing: " + ours + " has no file of this name")
		default:
			r.broken[name] = fmt.Errorf("is missing: %s", inWords(err))
		}
	}
	return nil
}

// over reports whether an error ends the conversation.
func (r *reflection) over(err error) bool {
	return err != nil && (r.lost || r.ctx.Err() != nil || grpcerror.Unimplemented(err))
}

// ask sends one request, and adds the files of its response. It returns the name of the first file.
func (r *reflection) ask(request *reflectionpb.ServerReflectionRequest) (file string, _ error) {
	response, err := r.exchange(request)
	if err != nil {
		return "", err
	}
	if failed := response.GetErrorResponse(); failed != nil {
		code := codes.Code(failed.GetErrorCode()) //nolint:gosec // other codes are treated alike
		return "", &refused{code, ": " + untrusted.Clip(failed.GetErrorMessage(), maxText)}
	}
	for i, text := range response.GetFileDescriptorResponse().GetFileDescriptorProto() {
		name := nameIn(text)
		problem := r.take(name, text)
		if problem != nil && name != "" {
			r.broken[name] = problem
		}
		if i == 0 {
			file = name
		}
		if problem != nil && file == "" {
			err = &refused{codes.Internal, " sends a file without a name, which " + problem.Error()}
		}
	}
	return file, err
}

// take adds a file. The error is the reason why it cannot be used.
func (r *reflection) take(name string, text []byte) error {
	switch {
	case r.files[name] != nil:
		r.wasted += len(text)
		return nil
	case r.size+len(text) > maxDescriptors:
		r.wasted += len(text)
		return fmt.Errorf("could not be read: %s has more than %d bytes", ours, maxDescriptors)
	case len(r.files) >= maxFiles:
		return fmt.Errorf("could not be read: %s has more than %d files", ours, maxFiles)
	}
	r.size += len(text)
	file, costs := &descriptorpb.FileDescriptorProto{}, newMeasure(r.ctx, nil, r.left)
	if err := costs.message(text, file.ProtoReflect().Descriptor(), 0); errors.Is(err, errLarge) {
		return errCostly
	}
	if err := proto.Unmarshal(text, file); err != nil || file.GetName() != name {
		return errors.New("could not be read: " + ours + " sends a file that is none")
	}
	r.left = costs.json.left
	delete(r.broken, name)
	r.files[name] = file
	r.wanted = append(r.wanted, file.GetDependency()...)
	return nil
}

// nameIn returns the name of a file whose descriptors may be unreadable; empty means unknown.
func nameIn(text []byte) (name string) {
	for len(text) > 0 {
		number, kind, n := protowire.ConsumeField(text)
		if n < 0 {
			return name
		}
		if number == 1 && kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(text)
			content, _ := protowire.ConsumeBytes(text[tag:])
			name = string(content)
		}
		text = text[n:]
	}
	return name
}

// refused is an error response of a backend instead of a file. It does not end the conversation.
type refused struct {
	code codes.Code
	text string
}

// Error implements error.
func (e *refused) Error() string { return ours + e.text }

// isAbsent reports whether the backend responded that there is no such file.
func isAbsent(err error) bool {
	var no *refused
	return errors.As(err, &no) && no.code == codes.NotFound
}

// inWords returns the error of one request for operators.
func inWords(err error) string {
	var no *refused
	if errors.As(err, &no) {
		return no.Error()
	}
	return ours + ": " + untrusted.Clip(grpcerror.Explain(err), maxText)
}

// exchange sends one request and returns its response. If the backend has ended the stream, it opens another one for
// the next request.
func (r *reflection) exchange(request *reflectionpb.ServerReflectionRequest) (
	response *reflectionpb.ServerReflectionResponse, err error) {
	switch {
	case r.wasted > maxDescriptors:
		return nil, &refused{codes.ResourceExhausted, fmt.Sprintf(" has more than %d bytes", maxDescriptors)}
	case r.ended > maxEnded:
		return nil, &refused{codes.Aborted, fmt.Sprintf(" has ended %d streams", r.ended)}
	case r.stream == nil:
		if r.stream, err = r.open(); err != nil {
			r.lost = true
			return nil, err
		}
	}
	response = &reflectionpb.ServerReflectionResponse{}
	err = r.stream.SendMsg(request)
	if err == nil || errors.Is(err, io.EOF) { // RecvMsg has the status of an ended stream
		err = r.stream.RecvMsg(response)
	}
	if errors.Is(err, io.EOF) {
		err = status.Error(codes.Internal, ours+" ended")
	}
	if err != nil {
		r.stream, r.ended, r.failed = nil, r.ended+1, cmp.Or(r.failed, err)
		return nil, err
	}
	return response, nil
}
