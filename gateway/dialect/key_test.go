package dialect_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/capgate/capgate/gateway/dialect"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// wire joins pieces of an encoded message.
func wire(pieces ...[]byte) []byte { return bytes.Join(pieces, nil) }

func str(num protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), s)
}

func varint(num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, num, protowire.VarintType), v)
}

func tag(num protowire.Number, typ protowire.Type) []byte { return protowire.AppendTag(nil, num, typ) }

func groups(depth int) []byte {
	return wire(bytes.Repeat(tag(9, protowire.StartGroupType), depth), bytes.Repeat(tag(9, protowire.EndGroupType), depth))
}

// What is not looked at is found, and the last of it.
func TestReadKeyFindsContent(t *testing.T) {
	t.Parallel()
	k, err := dialect.ReadKey(wire(str(3, "a"), str(2, "b"), str(3, "\xff"), varint(3, 7), str(2, "\xfe")))
	if err != nil || string(k.Args) != "\xfe" || string(k.Config) != "\xff" {
		t.Errorf("%q, %q, %v", k.Args, k.Config, err)
	}
}

func TestReadKey(t *testing.T) {
	t.Parallel()
	request, err := proto.Marshal(&docpb.InvokeRequest{ToolName: "tool", ArgsJson: []byte(`{"a":1}`), ConfigJson: []byte("\xff"), SessionId: "sess", CapabilityId: "cap", ThreadId: "th"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name               string
		msg                []byte
		tool, session, cap string
		err                error
	}{
		{"empty", nil, "", "", "", nil},
		{"a request", request, "tool", "sess", "cap", nil},
		{"the last value wins", wire(str(5, "a"), str(1, "t"), str(5, "b"), str(5, "c")), "t", "", "c", nil},
		{"even if empty", wire(str(5, "a"), str(5, "")), "", "", "", nil},
		{"other wire types are other fields", wire(str(5, "a"), varint(5, 7), tag(1, protowire.Fixed32Type), []byte("1234"), tag(4, protowire.Fixed64Type), []byte("12345678")), "", "", "a", nil},
		{"unknown fields", wire(varint(99, 1<<63), str(1000, "x"), groups(3), str(5, "c")), "", "", "c", nil},
		{"a group hides its fields", wire(tag(8, protowire.StartGroupType), str(5, "no"), tag(8, protowire.EndGroupType), str(1, "t")), "t", "", "", nil},
		{"highest field number", wire(str(protowire.MaxValidNumber, "x"), str(5, "c")), "", "", "c", nil},
		{"deep groups", wire(groups(5000), str(5, "c")), "", "", "c", nil},
		{"too deep groups", groups(20000), "", "", "", dialect.ErrMalformed},
		{"field number 0", str(0, "x"), "", "", "", dialect.ErrMalformed},
		{"field number too high", wire([]byte{0x82, 0x80, 0x80, 0x80, 0x10}, []byte{0}), "", "", "", dialect.ErrMalformed},
		{"wire type 6", []byte{0x0e}, "", "", "", dialect.ErrMalformed},
		{"wire type 7", []byte{0x0f}, "", "", "", dialect.ErrMalformed},
		{"end of no group", tag(3, protowire.EndGroupType), "", "", "", dialect.ErrMalformed},
		{"end of another group", wire(tag(8, protowire.StartGroupType), tag(9, protowire.EndGroupType)), "", "", "", dialect.ErrMalformed},
		{"group without end", tag(8, protowire.StartGroupType), "", "", "", dialect.ErrMalformed},
		{"truncated tag", []byte{0x80}, "", "", "", dialect.ErrMalformed},
		{"truncated length", []byte{0x2a, 0x80}, "", "", "", dialect.ErrMalformed},
		{"truncated value", []byte{0x2a, 5, 'a'}, "", "", "", dialect.ErrMalformed},
		{"truncated after the key", wire(str(5, "a"), []byte{0x12, 9, 'x'}), "", "", "", dialect.ErrMalformed},
		{"eleven-byte varint", wire(tag(9, protowire.VarintType), bytes.Repeat([]byte{0x80}, 10), []byte{1}), "", "", "", dialect.ErrMalformed},
		{"varint over 64 bits", wire(tag(9, protowire.VarintType), bytes.Repeat([]byte{0xff}, 9), []byte{2}), "", "", "", dialect.ErrMalformed},
		{"length over int64", wire(tag(2, protowire.BytesType), bytes.Repeat([]byte{0xff}, 9), []byte{1}), "", "", "", dialect.ErrMalformed},
		{"not UTF-8", str(5, "a\xff"), "", "", "", dialect.ErrUTF8},
		{"not UTF-8, replaced later", wire(str(1, "\xc3"), str(1, "ok")), "", "", "", dialect.ErrUTF8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k, err := dialect.ReadKey(tt.msg)
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if string(k.Tool) != tt.tool || string(k.Session) != tt.session || string(k.Capability) != tt.cap {
				t.Errorf("got %q, %q, %q", k.Tool, k.Session, k.Capability)
			}
		})
	}
}

func TestReadKeyDoesNotAllocate(t *testing.T) {
	good := wire(str(1, "tool"), str(2, `{"a":1}`), str(4, "s"), str(5, "cap"))
	bad := wire(good, []byte{0x80})
	if n := testing.AllocsPerRun(100, func() {
		_, _ = dialect.ReadKey(good)
		_, _ = dialect.ReadKey(bad)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// oracle decodes only the routing fields, so that it accepts just what ReadKey should:
// the real message also refuses a thread_id that is not UTF-8.
func oracle(tb testing.TB) protoreflect.MessageDescriptor {
	tb.Helper()
	field := func(name string, num int32) *descriptorpb.FieldDescriptorProto {
		return &descriptorpb.FieldDescriptorProto{Name: &name, Number: &num,
			Type: descriptorpb.FieldDescriptorProto_TYPE_STRING.Enum(), Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum()}
	}
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("key.proto"), Syntax: proto.String("proto3"), Package: proto.String("test"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: proto.String("Key"),
			Field: []*descriptorpb.FieldDescriptorProto{field("tool", 1), field("session", 4), field("capability", 5)}}},
	}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return file.Messages().Get(0)
}

func FuzzReadKey(f *testing.F) {
	f.Add(wire(str(1, "tool"), str(2, "{}"), str(4, "s"), str(5, "c"), str(6, "t")))
	f.Add(wire(groups(3), varint(5, 1), str(5, "\xff")))
	f.Add([]byte{0x2a, 0x80, 0x80, 0x80, 0x80, 0x10})
	f.Add(wire(tag(8, protowire.StartGroupType), []byte{0x82, 0x80, 0x80, 0x80, 0x10, 0}, tag(8, protowire.EndGroupType)))
	md := oracle(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := dialect.ReadKey(b)
		want := dynamicpb.NewMessage(md)
		if werr := proto.Unmarshal(b, want); (err == nil) != (werr == nil) {
			t.Fatalf("ReadKey: %v; protobuf: %v", err, werr)
		}
		req := new(docpb.InvokeRequest)
		if rerr := proto.Unmarshal(b, req); rerr != nil {
			if err == nil && !strings.Contains(rerr.Error(), "UTF-8") {
				t.Fatalf("ReadKey accepts what the message refuses: %v", rerr)
			}
			return
		}
		if err != nil {
			t.Fatalf("ReadKey refuses what the message accepts: %v", err)
		}
		if string(k.Tool) != req.GetToolName() || string(k.Session) != req.GetSessionId() || string(k.Capability) != req.GetCapabilityId() {
			t.Fatalf("got %q, %q, %q; want %v", k.Tool, k.Session, k.Capability, req)
		}
	})
}

func BenchmarkReadKey(b *testing.B) {
	msg := wire(str(1, "get_current_weather"), str(2, strings.Repeat("a", 1024)), str(3, "{}"), str(4, "session"), str(5, "weather"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := dialect.ReadKey(msg); err != nil {
			b.Fatal(err)
		}
	}
}
