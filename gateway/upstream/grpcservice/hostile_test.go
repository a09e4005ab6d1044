package grpcservice_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/grpctest"
)

// fileOf returns a file with the service a.S, whose methods have the message a.M.
func fileOf(edit func(*descriptorpb.FileDescriptorProto)) *descriptorpb.FileDescriptorProto {
	f := &descriptorpb.FileDescriptorProto{
		Name: proto.String("a.proto"), Package: proto.String("a"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("M")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: proto.String("S"),
			Method: []*descriptorpb.MethodDescriptorProto{{Name: proto.String("Get"), InputType: proto.String(".a.M"),
				OutputType: proto.String(".a.M")}}}},
	}
	if edit != nil {
		edit(f)
	}
	return f
}

func bytesOf(t *testing.T, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	check.Must(t, err)
	return data
}

func fieldOf(name string, number int32, kind descriptorpb.FieldDescriptorProto_Type,
	of string) *descriptorpb.FieldDescriptorProto {
	f := &descriptorpb.FieldDescriptorProto{Name: proto.String(name), JsonName: proto.String(name),
		Number: proto.Int32(number), Type: kind.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	if of != "" {
		f.TypeName = proto.String(of)
	}
	return f
}

// answering is server reflection that sends files for each request.
func answering(files func(*reflectionpb.ServerReflectionRequest) [][]byte) func(
	reflectionpb.ServerReflection_ServerReflectionInfoServer) error {
	return func(stream reflectionpb.ServerReflection_ServerReflectionInfoServer) error {
		for {
			q, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err = stream.Send(&reflectionpb.ServerReflectionResponse{
				MessageResponse: &reflectionpb.ServerReflectionResponse_FileDescriptorResponse{
					FileDescriptorResponse: &reflectionpb.FileDescriptorResponse{
						FileDescriptorProto: files(q)}}}); err != nil {
				return err
			}
		}
	}
}

// TestHostileReflection: each has an error, and the discovery ends.
func TestHostileReflection(t *testing.T) {
	t.Parallel()
	one := func(edit func(*descriptorpb.FileDescriptorProto)) func(*reflectionpb.ServerReflectionRequest) [][]byte {
		return func(*reflectionpb.ServerReflectionRequest) [][]byte { return [][]byte{bytesOf(t, fileOf(edit))} }
	}
	reflected := func(files ...[]byte) func(*reflectionpb.ServerReflectionRequest) [][]byte {
		return func(*reflectionpb.ServerReflectionRequest) [][]byte { return files }
	}
	next, large := 0, 0
	for name, c := range map[string]struct {
		files func(*reflectionpb.ServerReflectionRequest) [][]byte
		want  string
	}{
		"imports without end": {func(*reflectionpb.ServerReflectionRequest) [][]byte {
			f := &descriptorpb.FileDescriptorProto{Name: proto.String(fmt.Sprintf("f%d.proto", next)),
				Dependency: []string{fmt.Sprintf("f%d.proto", next+1)}}
			next++
			return [][]byte{bytesOf(t, f)}
		}, "more than 2000 files"},
		"files that are too large": {one(func(f *descriptorpb.FileDescriptorProto) {
			f.Dependency = []string{strings.Repeat("x", 9<<20)}
		}), ""},
		"files that are too large together": {func(*reflectionpb.ServerReflectionRequest) [][]byte {
			f := &descriptorpb.FileDescriptorProto{Name: proto.String(fmt.Sprintf("large%d.proto", large)),
				Package: proto.String(strings.Repeat("x", 3<<20))}
			if large++; large < 5 {
				f.Dependency = []string{fmt.Sprintf("large%d.proto", large)}
			}
			return [][]byte{bytesOf(t, f)}
		}, "more than 8388608 bytes"},
		"no file": {reflected(), "no such service"},
		"bytes":   {reflected([]byte{0xff}), "a file that is none"},
		"another file": {one(func(f *descriptorpb.FileDescriptorProto) {
			f.Dependency = []string{"b.proto"}
		}), "has no file"},
		"imports of itself": {one(func(f *descriptorpb.FileDescriptorProto) {
			f.Dependency = []string{"a.proto"}
		}), "inconsistent descriptors"},
		"another service": {one(func(f *descriptorpb.FileDescriptorProto) {
			f.Service[0].Name = proto.String("T")
		}), "no such service"},
		"a message for it": {one(func(f *descriptorpb.FileDescriptorProto) {
			f.Service, f.MessageType[0].Name = nil, proto.String("S")
		}), "no such service"},
		"a type that is not": {one(func(f *descriptorpb.FileDescriptorProto) {
			f.Service[0].Method[0].InputType = proto.String(".a.N")
		}), "inconsistent descriptors"},
		"methods that share a large message": {one(func(f *descriptorpb.FileDescriptorProto) { // 53 KB
			for i := range int32(40) { // few with long names: each costs time in each of the schemas
				f.MessageType[0].Field = append(f.MessageType[0].Field, fieldOf(strings.Repeat("f", 700)+fmt.Sprint(i),
					i+1, descriptorpb.FieldDescriptorProto_TYPE_STRING, ""))
			}
			for i := range 990 {
				f.Service[0].Method = append(f.Service[0].Method, &descriptorpb.MethodDescriptorProto{
					Name: proto.String(fmt.Sprintf("Get%d", i)), InputType: proto.String(".a.M"),
					OutputType: proto.String(".a.M")})
			}
		}), "schemas of the methods have more than 4194304"},
		"a long name": {one(func(f *descriptorpb.FileDescriptorProto) { // 76 KB
			f.MessageType[0].Name = proto.String(strings.Repeat("M", 38<<10))
			for i := range int32(3_000) {
				f.MessageType[0].Field = append(f.MessageType[0].Field, &descriptorpb.FieldDescriptorProto{
					Name: proto.String(fmt.Sprintf("f%d", i)), Number: proto.Int32(i + 1)})
			}
		}), "is too large"},
		"a package of many names": {one(func(f *descriptorpb.FileDescriptorProto) {
			f.Package = proto.String(strings.Repeat("a.", 1<<20) + "a")
		}), "is too large"},
		"names in many scopes": {one(func(f *descriptorpb.FileDescriptorProto) {
			f.Package = proto.String(strings.Repeat("a.", 1<<10) + "a")
			for i := range int32(5_000) {
				f.MessageType[0].Field = append(f.MessageType[0].Field, fieldOf(fmt.Sprintf("f%d", i), i+1,
					descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, "b"))
			}
		}), "is too large"},
		"many empty messages": {one(func(f *descriptorpb.FileDescriptorProto) {
			for range 500_000 {
				f.MessageType = append(f.MessageType, &descriptorpb.DescriptorProto{})
			}
		}), "is too large"},
		"messages in messages": {one(func(f *descriptorpb.FileDescriptorProto) {
			for m, i := f.MessageType[0], 0; i < 100; i++ {
				m.NestedType = []*descriptorpb.DescriptorProto{{Name: proto.String("M")}}
				m = m.NestedType[0]
			}
		}), "nested deeper than 64"},
		"paths of imports": {func() func(*reflectionpb.ServerReflectionRequest) [][]byte {
			var files [][]byte
			for i := range 60 {
				name := func(i int) string { return fmt.Sprintf("p%d.proto", i) }
				f := &descriptorpb.FileDescriptorProto{Name: proto.String(name(i))}
				for next := i + 1; next <= min(i+2, 59); next++ {
					f.PublicDependency = append(f.PublicDependency, int32(len(f.Dependency))) //nolint:gosec // 0 or 1
					f.Dependency = append(f.Dependency, name(next))
				}
				files = append(files, bytesOf(t, f))
			}
			return reflected(files...)
		}(), "paths of public imports"},
		"types of protobuf": {one(func(f *descriptorpb.FileDescriptorProto) {
			f.Package, f.MessageType[0].Name = proto.String("google.protobuf"), proto.String("Timestamp")
			f.Service = nil
		}), "not a file of protobuf"},
		"nested types of protobuf": {one(func(f *descriptorpb.FileDescriptorProto) {
			f.Package, f.Service = proto.String("google"), nil
			f.MessageType = []*descriptorpb.DescriptorProto{{Name: proto.String("protobuf"),
				NestedType: []*descriptorpb.DescriptorProto{{Name: proto.String("Duration")}}}}
		}), "not a file of protobuf"},
		"client streaming": {one(func(f *descriptorpb.FileDescriptorProto) {
			f.Service[0].Method[0].ClientStreaming = proto.Bool(true)
		}), "client streaming"},
		"too many fields": {one(func(f *descriptorpb.FileDescriptorProto) {
			for i := range int32(10_000) {
				f.MessageType[0].Field = append(f.MessageType[0].Field, fieldOf(fmt.Sprintf("field_%d", i), i+1,
					descriptorpb.FieldDescriptorProto_TYPE_STRING, ""))
			}
		}), "too many fields"},
		"too many messages": {one(func(f *descriptorpb.FileDescriptorProto) {
			for i := range int32(10_000) {
				name := fmt.Sprintf("N%d", i)
				f.MessageType = append(f.MessageType, &descriptorpb.DescriptorProto{Name: proto.String(name)})
				f.MessageType[i].Field = append(f.MessageType[i].Field, fieldOf("next", 1,
					descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".a."+name))
			}
		}), "too many fields"},
	} {
		t.Run(name, func(t *testing.T) { // not parallel: next and large are shared
			s := grpctest.Start(t, grpctest.Options{Reflect: answering(c.files)})
			w := start(t, func(f *upstream.Fleet, of *gatewaytest.Fleet) {
				settings(f).Methods, of.Unprobed = []string{"a.S/*"}, true
			}, s.Addr)
			_, err := w.Invoke(within(t), request(upstream.DiscoveryTool, ""))
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 2000 {
				t.Errorf("%.2000v", err)
			}
			if _, err = w.Invoke(within(t), request("Get", "{}")); status.Code(err) != codes.Unavailable {
				t.Errorf("a call: %.500v", err)
			}
		})
	}
}

// TestReflectionThatHangs: a discovery has its deadline, and so have calls that wait for it.
func TestReflectionThatHangs(t *testing.T) {
	t.Parallel()
	s := grpctest.Start(t, grpctest.Options{
		Reflect: func(stream reflectionpb.ServerReflection_ServerReflectionInfoServer) error {
			<-stream.Context().Done()
			return nil
		}})
	w := start(t, func(_ *upstream.Fleet, of *gatewaytest.Fleet) {
		of.Unprobed, of.Deadlines.Default, of.Deadlines.Max = true, 100e6, 100e6 // 100 ms
	}, s.Addr)
	for _, tool := range []string{upstream.DiscoveryTool, "Echo"} {
		if _, err := w.Invoke(within(t), request(tool, "{}")); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("%s: %v", tool, err)
		}
	}
	w.services.Set(nil) // else the end of the test waits for the reflection
	s.Stop()
}

// TestWrongMessages: bytes that are not the method's message, or that would take much memory, are errors.
func TestWrongMessages(t *testing.T) {
	t.Parallel()
	s := grpctest.Start(t, grpctest.Options{})
	w := start(t, func(f *upstream.Fleet, _ *gatewaytest.Fleet) { settings(f).MaxMessage = 1 << 20 }, s.Addr)
	nested := func(number protowire.Number, levels int) (data []byte) {
		for range levels {
			data = protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), data)
		}
		return data
	}
	inAny := func(levels int) (data []byte) {
		const url = "type.googleapis.com/google.protobuf.Any"
		for range levels {
			data = protowire.AppendBytes(protowire.AppendTag(protowire.AppendString(
				protowire.AppendTag(nil, 1, protowire.BytesType), url), 2, protowire.BytesType), data)
		}
		return protowire.AppendBytes(protowire.AppendTag(nil, 16, protowire.BytesType), data)
	}
	entry := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), nil)
	for name, c := range map[string]struct {
		data []byte
		want codes.Code
		text string
	}{
		"no message":     {[]byte{0xff, 0xff}, codes.Internal, "type"},
		"a wrong length": {[]byte{0x0a, 0x05, 'a'}, codes.Internal, "type"},
		"no UTF-8":       {[]byte{0x0a, 0x01, 0xff}, codes.Internal, "type"},
		"deep":           {nested(22, 400), codes.Internal, "too deep"},
		"deep in Any":    {inAny(400), codes.Internal, "too deep"},
		"a bad timestamp": {protowire.AppendBytes(protowire.AppendTag(nil, 12, protowire.BytesType),
			protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1<<62)), codes.Internal,
			"no JSON form"},
		"many messages": {[]byte(strings.Repeat(string(protowire.AppendBytes(
			protowire.AppendTag(nil, 10, protowire.BytesType), entry)), 100_000)), codes.ResourceExhausted,
			"too large"},
	} {
		args := `{"message":"` + base64.StdEncoding.EncodeToString(c.data) + `"}`
		if got, err := w.Invoke(within(t), request("Raw", args)); status.Code(err) != c.want ||
			!strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %.200s, %v", name, got.GetResultJson(), err)
		}
	}
	unknown := protowire.AppendBytes(protowire.AppendTag(nil, 16, protowire.BytesType), protowire.AppendString(
		protowire.AppendTag(nil, 1, protowire.BytesType), "type.googleapis.com/a.Unknown"))
	got := w.result(t, "Raw", `{"message":"`+base64.StdEncoding.EncodeToString(unknown)+`"}`)
	if !strings.Contains(got, `"any":{"@type":"type.googleapis.com/a.Unknown"}`) {
		t.Errorf("an Any of an unknown type: %s", got)
	}
}
