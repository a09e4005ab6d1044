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

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/lib/recovery"
)

const (
	maxDescriptors = 8 << 20 // bytes of all descriptors
	maxFiles       = 2000    // of descriptors
	maxText        = 512     // bytes of an error about a backend's descriptors
)

// Parse reads a descriptor file. Every problem is an error: each method of the list must become a tool.
func Parse(file []byte, methods []string, names ToolNames) (*Definitions, error) {
	if len(file) > maxDescriptors {
		return nil, fmt.Errorf("has %d bytes; at most %d are allowed", len(file), maxDescriptors)
	}
	set := &descriptorpb.FileDescriptorSet{}
	if err := proto.Unmarshal(file, set); err != nil || len(set.GetFile()) == 0 {
		return nil, errors.New("is not a set of descriptors; protoc --include_imports --descriptor_set_out=FILE writes " +
			"one, and so does buf build -o FILE")
	}
	ctx := context.Background() // budgets bound the rest
	files, err := build(ctx, set.GetFile())
	if err != nil {
		return nil, err
	}
	definitions, problems := define(ctx, files, methods, names)
	if err := errors.Join(problems...); err != nil {
		return nil, err
	}
	return definitions, nil
}

// build links descriptors. Those of the well-known types are this program's own, since their JSON form depends on
// their fields.
func build(ctx context.Context, received []*descriptorpb.FileDescriptorProto) (files *protoregistry.Files, err error) {
	if len(received) > maxFiles {
		return nil, fmt.Errorf("has %d files; at most %d are allowed", len(received), maxFiles)
	}
	set, seen := &descriptorpb.FileDescriptorSet{}, map[string]bool{}
	for _, file := range received {
		if seen[file.GetName()] {
			return nil, fmt.Errorf("has the file %.100q twice", file.GetName())
		}
		seen[file.GetName()] = true
		set.File = append(set.File, file)
		if own := ownFile(file.GetName()); own != nil {
			set.File[len(set.File)-1] = own
		}
	}
	for i := 0; i < len(set.File); i++ { // imports of files that are known here may be absent
		for _, name := range set.File[i].GetDependency() {
			if own := ownFile(name); own != nil && !seen[name] {
				seen[name] = true
				set.File = append(set.File, own)
			}
		}
	}
	if err := weigh(ctx, set.GetFile()); err != nil {
		return nil, err
	}
	err = recovery.Do("descriptors", func() (err error) {
		files, err = protodesc.NewFiles(set)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("has descriptors that do not fit together: %s; it must have all imports",
			upstream.Clip(err.Error(), maxText))
	}
	files.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if ownFile(file.Path()) == nil && imitates(file.Messages(), file.Enums()) {
			err = fmt.Errorf("has types of %s in %.100q, which is not a file of protobuf", wellKnownPackage, file.Path())
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	return files, nil
}

// ownFile returns this program's descriptors of a file of protobuf; nil: it is another file, or not known here.
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

// imitates says whether messages or enums have the name of a type of protobuf.
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
