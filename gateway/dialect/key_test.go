package dialect_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/internal/testkit/check"
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
	return wire(bytes.Repeat(tag(9, protowire.StartGroupType), depth),
		bytes.Repeat(tag(9, protowire.EndGroupType), depth))
}

// TestReadKeyFindsContent: the fields that ReadKey does not decode are found as well.
func TestReadKeyFindsContent(t *testing.T) {
	t.Parallel()
	k, err := dialect.ReadKey(wire(str(2, "\xfe"), str(3, "\xff"), str(6, "th")))
	if err != nil || string(k.Args) != "\xfe" || string(k.Config) != "\xff" || string(k.Thread) != "th" {
		t.Errorf("%q, %q, %q, %v", k.Args, k.Config, k.Thread, err)
	}
}

func TestReadKey(t *testing.T) {
	t.Parallel()
	request, err := proto.Marshal(&docpb.InvokeRequest{ToolName: "tool", ArgsJson: []byte(`{"a":1}`),
		ConfigJson: []byte("\xff"), SessionId: "sess", CapabilityId: "cap", ThreadId: "th"})
	check.Must(t, err)
	for _, tt := range []struct {
		name               string
		msg                []byte
		tool, session, cap string
		err                error
	}{
		{"empty", nil, "", "", "", nil},
		{"a request", request, "tool", "sess", "cap", nil},
		{"in another order", wire(str(5, "c"), str(4, "s"), str(1, "t")), "t", "s", "c", nil},
		{"empty fields", wire(str(1, ""), str(2, ""), str(4, ""), str(5, "c")), "", "", "c", nil},
		{"unknown fields", wire(varint(99, 1<<63), str(1000, "\xff"), str(1000, "x"), str(5, "c")), "", "", "c", nil},
		{"highest field number", wire(str(protowire.MaxValidNumber, "x"), str(5, "c")), "", "", "c", nil},
		{"a field twice", wire(str(5, "a"), str(1, "t"), str(5, "a")), "", "", "", dialect.ErrAmbiguous},
		{"arguments twice", wire(str(2, "a"), str(2, "b")), "", "", "", dialect.ErrAmbiguous},
		{"a varint that protobuf.js takes for a text", wire(str(1, "allowed"), []byte{0x08, 0x03}), "", "", "",
			dialect.ErrAmbiguous},
		{"a tag that Python does not know", wire([]byte{0x8a, 0x00, 0x01, 't'}), "", "", "", dialect.ErrAmbiguous},
		{"a group", wire(tag(8, protowire.StartGroupType), str(5, "no"), tag(8, protowire.EndGroupType), str(1, "t")),
			"", "", "", dialect.ErrAmbiguous},
		{"end of no group", tag(3, protowire.EndGroupType), "", "", "", dialect.ErrAmbiguous},
		{"field number 0", str(0, "x"), "", "", "", dialect.ErrAmbiguous},
		{"field number too high", wire([]byte{0x82, 0x80, 0x80, 0x80, 0x10}, []byte{0}), "", "", "",
			dialect.ErrAmbiguous},
		{"not UTF-8", str(5, "a\xff"), "", "", "", dialect.ErrAmbiguous},
		{"a thread that is not UTF-8", str(6, "a\xff"), "", "", "", dialect.ErrAmbiguous},
		{"a byte order mark", str(1, "\ufefftool"), "", "", "", dialect.ErrAmbiguous},
		{"wire type 6", []byte{0x0e}, "", "", "", dialect.ErrMalformed},
		{"truncated after the key", wire(str(5, "a"), []byte{0x12, 9, 'x'}), "", "", "", dialect.ErrMalformed},
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
	bad := wire(good, str(5, "cap"))
	if n := testing.AllocsPerRun(100, func() {
		_, _ = dialect.ReadKey(good)
		_, _ = dialect.ReadKey(bad)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzReadKey: what passes says the same to protobuf, and what protobuf writes passes.
func FuzzReadKey(f *testing.F) {
	f.Add(wire(str(1, "tool"), str(2, "{}"), str(4, "s"), str(5, "c"), str(6, "t")))
	f.Add(wire(groups(3), varint(5, 1), str(5, "\xff")))
	f.Add(wire(str(1, "a"), str(1, "\ufeffb"), varint(1, 3)))
	f.Add([]byte{0x2a, 0x80, 0x80, 0x80, 0x80, 0x10})
	f.Fuzz(func(t *testing.T, b []byte) {
		k, err := dialect.ReadKey(b)
		req := new(docpb.InvokeRequest)
		unread := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, req)
		switch {
		case err == nil && unread != nil:
			t.Fatalf("ReadKey accepts what protobuf refuses: %v", unread)
		case err == nil && !sameKey(k, req):
			t.Fatalf("got %q; want %v", k, req)
		case unread != nil || marked(req.GetToolName(), req.GetSessionId(), req.GetCapabilityId(), req.GetThreadId()):
			return
		}
		written, err := proto.Marshal(req)
		check.Must(t, err)
		if k, err := dialect.ReadKey(written); err != nil || !sameKey(k, req) {
			t.Fatalf("of what protobuf writes got %q, %v; want %v", k, err, req)
		}
	})
}

func sameKey(k dialect.Key, req *docpb.InvokeRequest) bool {
	return string(k.Tool) == req.GetToolName() && string(k.Session) == req.GetSessionId() &&
		string(k.Capability) == req.GetCapabilityId() &&
		string(k.Thread) == req.GetThreadId() && bytes.Equal(k.Args, req.GetArgsJson()) &&
		bytes.Equal(k.Config, req.GetConfigJson())
}

// marked reports whether a text begins with a byte order mark, which is refused although encoders write it.
func marked(texts ...string) bool {
	return slices.ContainsFunc(texts, func(s string) bool { return strings.HasPrefix(s, "\ufeff") })
}

func BenchmarkReadKey(b *testing.B) {
	msg := wire(str(1, "get_current_weather"), str(2, strings.Repeat("a", 1024)), str(3, "{}"), str(4, "session"),
		str(5, "weather"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := dialect.ReadKey(msg); err != nil {
			b.Fatal(err)
		}
	}
}
