package dialect_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/dialect"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// entry is one of a context's.
func entry(name, value string) []byte { return str(3, string(wire(str(1, name), str(2, value)))) }

func TestReadLegacyKey(t *testing.T) {
	t.Parallel()
	request, err := proto.Marshal(&legacypb.InvokeRequest{ToolName: "tool", Parameters: `{"a":1}`, Context: map[string]string{
		"session_id": "sess", "user_id": "ann", "capability_id": "cap", "thread_id": "th", "color": "blue"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		msg  []byte
		want string // tool, args, session, capability, user, config
		err  error
	}{
		{"empty", nil, "|||||", nil},
		{"a request", request, `tool|{"a":1}|sess|cap|ann|`, nil},
		{"the last value wins", wire(str(1, "a"), entry("session_id", "x"), str(2, "1"), entry("session_id", "y"), str(2, "2"), str(1, "b")), "b|2|y|||", nil},
		{"even if empty", wire(entry("session_id", "x"), entry("session_id", "")), "|||||", nil},
		{"even if there is no value", wire(entry("user_id", "x"), str(3, string(str(1, "user_id")))), "|||||", nil},
		{"of an entry, too", str(3, string(wire(str(1, "user_id"), str(2, "a"), str(1, "session_id"), str(2, "b")))), "||b|||", nil},
		{"value before key", str(3, string(wire(str(2, "a"), str(1, "session_id")))), "||a|||", nil},
		{"what other dialects have there", wire(str(4, "s"), str(5, "c"), str(6, "t")), "|||||", nil},
		{"configuration", entry("config_json", `{"KEY":"k"}`), `|||||{"KEY":"k"}`, nil},
		{"other wire types are other fields", wire(varint(1, 7), varint(2, 7), varint(3, 7), str(3, string(wire(varint(1, 1), varint(2, 2))))), "|||||", nil},
		{"unknown fields", wire(groups(3), str(99, "\xff"), str(3, string(wire(groups(2), str(7, "\xff"), str(1, "session_id"), str(2, "s"))))), "||s|||", nil},
		{"no entry", str(3, ""), "|||||", nil},
		{"tool is no text", str(1, "\xff"), "", dialect.ErrUTF8},
		{"parameters are no text", str(2, "\xff"), "", dialect.ErrUTF8},
		{"a name is no text", entry("\xff", ""), "", dialect.ErrUTF8},
		{"a value is no text", entry("color", "\xff"), "", dialect.ErrUTF8},
		{"an entry is cut off", str(3, "\x0a\x05a"), "", dialect.ErrMalformed},
		{"an entry is no message", str(3, "hello"), "", dialect.ErrMalformed},
		{"truncated after the key", wire(str(1, "a"), []byte{0x12, 9, 'x'}), "", dialect.ErrMalformed},
		{"field number 0", str(0, "x"), "", dialect.ErrMalformed},
		{"too deep groups", groups(20000), "", dialect.ErrMalformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k, err := dialect.ReadLegacyKey(tt.msg)
			if !errors.Is(err, tt.err) {
				t.Fatalf("error %v, want %v", err, tt.err)
			}
			if got := legacyText(k); err == nil && got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func legacyText(k dialect.Key) string {
	return strings.Join([]string{string(k.Tool), string(k.Args), string(k.Session), string(k.Capability), string(k.User), string(k.Config)}, "|")
}

func TestReadLegacyKeyDoesNotAllocate(t *testing.T) {
	good := wire(str(1, "tool"), str(2, `{"a":1}`), entry("session_id", "s"), entry("user_id", "u"), entry("color", "blue"))
	bad := wire(good, []byte{0x80})
	if n := testing.AllocsPerRun(100, func() {
		_, _ = dialect.ReadLegacyKey(good)
		_, _ = dialect.ReadLegacyKey(bad)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzLegacy: the walkers of the legacy dialect accept what protobuf accepts, and read it as
// protobuf does.
func FuzzLegacy(f *testing.F) {
	f.Add(wire(str(1, "tool"), str(2, "{}"), entry("session_id", "s"), entry("color", "blue")))
	f.Add(wire(entry("user_id", "a"), str(3, string(str(1, "user_id"))), groups(3)))
	f.Add(str(3, string(wire(groups(2), varint(1, 1), str(1, "capability_id"), str(2, "\xff")))))
	f.Add(str(3, string(wire(tag(8, protowire.StartGroupType), []byte{0x82, 0x80, 0x80, 0x80, 0x10, 0}, tag(8, protowire.EndGroupType)))))
	f.Add([]byte{0x1a, 0x80, 0x80, 0x80, 0x80, 0x10})
	f.Add(wire(varint(2, 1), str(3, "e")))
	f.Fuzz(func(t *testing.T, b []byte) {
		req := new(legacypb.InvokeRequest)
		want := proto.Unmarshal(b, req)
		k, err := dialect.ReadLegacyKey(b)
		if (err == nil) != (want == nil) {
			t.Fatalf("ReadLegacyKey: %v; protobuf: %v", err, want)
		}
		said := req.GetContext()
		if text := strings.Join([]string{req.GetToolName(), req.GetParameters(), said["session_id"], said["capability_id"], said["user_id"], said["config_json"]}, "|"); err == nil && legacyText(k) != text {
			t.Fatalf("got %s, want %s", legacyText(k), text)
		}
	})
}

func BenchmarkReadLegacyKey(b *testing.B) {
	msg := wire(str(1, "get_current_weather"), str(2, strings.Repeat("a", 1024)), entry("session_id", "session"), entry("user_id", "ann"), entry("color", "blue"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := dialect.ReadLegacyKey(msg); err != nil {
			b.Fatal(err)
		}
	}
}
