package grpcservice

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
)

const (
	maxDescriptors = 8 << 20 // bytes of all descriptors
	maxFiles       = 2000    // number of descriptor files
	maxText        = 512     // bytes of an error about a backend's descriptors
)

// Parse parses a descriptor file. Each entry of the list must have a tool, and each method listed by name must be
// usable as a tool. Other methods of services listed as a whole are omitted if they cannot be tools.
func Parse(file []byte, methods []string, names ToolNames) (*Definitions, error) {
	if len(file) > maxDescriptors {
		return nil, fmt.Errorf("has %d bytes; at most %d are allowed", len(file), maxDescriptors)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(file, set); err != nil || len(set.GetFile()) == 0 {
		return nil, errors.New("is not a set of descriptors; protoc --include_imports --descriptor_set_out=FILE " +
			"writes one, and so does buf build -o FILE")
	}
	if len(set.GetFile()) > maxFiles {
		return nil, fmt.Errorf("has %d files; at most %d are allowed", len(set.GetFile()), maxFiles)
	}
	ctx := context.Background() // budgets limit the rest
	files, err := link(ctx, eachOnce(set.GetFile()))
	if err != nil {
		return nil, err
	}
	definitions, problems := define(ctx, files, methods, names)
	if err := errors.Join(problems.mistakes...); err != nil {
		return nil, err
	}
	return definitions, nil
}

// eachOnce returns the files of a set. A file with two different contents is broken.
func eachOnce(set []*descriptorpb.FileDescriptorProto) *descriptors {
	d := &descriptors{broken: map[string]error{}}
	seen := map[string]*descriptorpb.FileDescriptorProto{}
	for _, file := range set {
		before := seen[file.GetName()]
		switch {
		case before == nil:
			seen[file.GetName()] = file
			d.files = append(d.files, file)
		case !proto.Equal(before, file):
			d.broken[file.GetName()] = errors.New("is there twice")
		}
	}
	return d
}

// ownFile returns this program's descriptors of a protobuf file; nil means it is another file, or unknown.
func ownFile(name string) *descriptorpb.FileDescriptorProto {
	if !strings.HasPrefix(name, "google/protobuf/") {
		return nil
	}
	file, err := protoregistry.GlobalFiles.FindFileByPath(name)
	if err != nil {
		return nil
	}
	return protodesc.ToFileDescriptorProto(file)
}

// imitates reports whether messages or enums have the name of a protobuf type.
func imitates(messages protoreflect.MessageDescriptors, enums protoreflect.EnumDescriptors) bool {
	for i := range enums.Len() {
		if enums.Get(i).FullName().Parent() == wellKnownPackage {
			return true
		}
	}
	for i := range messages.Len() {
		m := messages.Get(i)
		if m.FullName().Parent() == wellKnownPackage || imitates(m.Messages(), m.Enums()) {
			return true
		}
	}
	return false
}
