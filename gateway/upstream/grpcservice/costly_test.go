package grpcservice_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/grpctest"
)

// delimited makes demo.v1.Demo/Raw return messages that are groups in groups.
func delimited(f *descriptorpb.FileDescriptorProto) {
	f.Package, f.Syntax, f.Edition = proto.String("demo.v1"), proto.String("editions"),
		descriptorpb.Edition_EDITION_2023.Enum()
	group := fieldOf("next", 1, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE, ".demo.v1.M")
	group.Options = &descriptorpb.FieldOptions{Features: &descriptorpb.FeatureSet{
		MessageEncoding: descriptorpb.FeatureSet_DELIMITED.Enum()}}
	f.MessageType[0].Field = append(f.MessageType[0].Field, group)
	f.Service[0].Name = proto.String("Demo")
	f.Service[0].Method[0] = &descriptorpb.MethodDescriptorProto{Name: proto.String("Raw"),
		InputType: proto.String(".demo.v1.M"), OutputType: proto.String(".demo.v1.M")}
}

// inGroups puts data into so many groups.
func inGroups(levels int, data []byte) []byte {
	before := strings.Repeat(string(protowire.AppendTag(nil, 1, protowire.StartGroupType)), levels)
	after := strings.Repeat(string(protowire.AppendTag(nil, 1, protowire.EndGroupType)), levels)
	return []byte(before + string(data) + after)
}

// TestGroupsInGroups: a decoder reads the bytes of a group again for each group around it, so a message with many is
// rejected before that. Few groups are read.
func TestGroupsInGroups(t *testing.T) {
	t.Parallel()
	file := bytesOf(t, fileOf(delimited))
	unknown := []byte(strings.Repeat(string(protowire.AppendVarint(
		protowire.AppendTag(nil, 9, protowire.VarintType), 0)), 400_000))
	var levels atomic.Int64
	s := grpctest.Start(t, grpctest.Options{Reflect: answering(
		func(*reflectionpb.ServerReflectionRequest) [][]byte { return [][]byte{file} }),
		Server: []grpc.ServerOption{grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
			m := &emptypb.Empty{}
			if err := stream.RecvMsg(m); err != nil {
				return err
			}
			m.ProtoReflect().SetUnknown(inGroups(int(levels.Load()), unknown))
			return stream.SendMsg(m)
		})}})
	w := start(t, func(f *upstream.Fleet, of *gatewaytest.Fleet) {
		settings(f).MaxMessage, of.Unprobed = 1<<20, true
	}, s.Addr)
	levels.Store(2)
	if got := w.result(t, "Raw", "{}"); got != `{"next":{"next":{}}}` {
		t.Errorf("two groups: %.200s", got)
	}
	levels.Store(250)
	_, err := w.Invoke(within(t), request("Raw", "{}"))
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "nested groups") {
		t.Errorf("many groups: %.500v", err)
	}
}
