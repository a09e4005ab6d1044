package dialect_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/internal/testkit/check"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// entry is one of a context's.
func entry(name, value string) []byte { return str(3, string(wire(str(1, name), str(2, value)))) }

func names(n int) (msg []byte) {
	for i := range n {
		msg = append(msg, entry(strconv.Itoa(i), "")...)
	}
	return msg
}

func TestReadLegacyKey(t *testing.T) {
	t.Parallel()
	request, err := proto.Marshal(&legacypb.InvokeRequest{ToolName: "tool", Parameters: `{"a":1}`,
		Context: map[string]string{
			"session_id": "sess", "user_id": "ann", "capability_id": "cap", "thread_id": "th", "color": "blue"}})
	check.Must(t, err)
	for _, tt := range []struct {
		name string
		msg  []byte
		want string // tool, args, session, capability, user, config
		err  error
	}{
		{"empty", nil, "|||||", nil},
		{"a request", request, `tool|{"a":1}|sess|cap|ann|`, nil},
		{"what other dialects have there", wire(str(4, "s"), str(5, "c"), str(6, "t")), "|||||", nil},
		{"configuration", entry("config_json", `{"KEY":"k"}`), `|||||{"KEY":"k"}`, nil},
		{"unknown fields", wire(str(99, "\xff"), varint(98, 1), entry("session_id", "s")), "||s|||", nil},
		{"no entry", str(3, ""), "|||||", nil},
		{"an entry without a value, as prost and C# write it", str(3, string(str(1, "user_id"))), "|||||", nil},
		{"an entry without a key, as prost and C# write it", str(3, string(str(2, "v"))), "|||||", nil},
		{"a field twice", wire(str(1, "a"), str(1, "b")), "", dialect.ErrAmbiguous},
		{"a name twice", wire(entry("session_id", "x"), entry("session_id", "x")), "", dialect.ErrAmbiguous},
		{"another name twice", wire(entry("color", "x"), entry("color", "y")), "", dialect.ErrAmbiguous},
		{"no name twice", wire(str(3, ""), entry("", "y")), "", dialect.ErrAmbiguous},
		{"an entry's key twice", str(3, string(wire(str(1, "user_id"), str(2, "a"), str(1, "session_id")))), "",
			dialect.ErrAmbiguous},
		{"an entry's value twice", str(3, string(wire(str(1, "user_id"), str(2, "a"), str(2, "b")))), "",
			dialect.ErrAmbiguous},
		{"value before key", str(3, string(wire(str(2, "a"), str(1, "session_id")))), "", dialect.ErrAmbiguous},
		{"an entry that upb drops", str(3, string(wire(str(1, "session_id"), str(2, "s"), str(7, "x")))), "",
			dialect.ErrAmbiguous},
		{"a group in an entry", str(3, string(wire(str(1, "session_id"), groups(1)))), "", dialect.ErrAmbiguous},
		{"another wire type", varint(3, 7), "", dialect.ErrAmbiguous},
		{"another wire type in an entry", str(3, string(varint(1, 7))), "", dialect.ErrAmbiguous},
		{"tool is no text", str(1, "\xff"), "", dialect.ErrAmbiguous},
		{"parameters are no text", str(2, "\xff"), "", dialect.ErrAmbiguous},
		{"a name is no text", entry("\xff", ""), "", dialect.ErrAmbiguous},
		{"a value is no text", entry("color", "\xff"), "", dialect.ErrAmbiguous},
		{"a byte order mark", entry("\ufeffsession_id", "s"), "", dialect.ErrAmbiguous},
		{"as many names as there may be", names(128), "|||||", nil},
		{"more names", names(129), "", dialect.ErrAmbiguous},
		{"an entry is cut off", str(3, "\x0a\x05a"), "", dialect.ErrMalformed},
		{"truncated after the key", wire(str(1, "a"), []byte{0x12, 9, 'x'}), "", dialect.ErrMalformed},
		{"field number 0", str(0, "x"), "", dialect.ErrAmbiguous},
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
	return strings.Join([]string{string(k.Tool), string(k.Args), string(k.Session), string(k.Capability),
		string(k.User), string(k.Config)}, "|")
}

func TestReadLegacyKeyDoesNotAllocate(t *testing.T) {
	good := wire(str(1, "tool"), str(2, `{"a":1}`), entry("session_id", "s"), entry("user_id", "u"),
		entry("color", "blue"))
	bad := wire(good, entry("color", "red"))
	if n := testing.AllocsPerRun(100, func() {
		_, _ = dialect.ReadLegacyKey(good)
		_, _ = dialect.ReadLegacyKey(bad)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzLegacy: what passes says the same to protobuf, and what protobuf writes passes.
func FuzzLegacy(f *testing.F) {
	f.Add(wire(str(1, "tool"), str(2, "{}"), entry("session_id", "s"), entry("color", "blue")))
	f.Add(wire(entry("user_id", "a"), str(3, string(str(1, "user_id"))), groups(3)))
	f.Add(str(3, string(wire(groups(2), varint(1, 1), str(1, "capability_id"), str(2, "\xff")))))
	f.Add([]byte{0x1a, 0x80, 0x80, 0x80, 0x80, 0x10})
	f.Add(wire(varint(2, 1), str(3, "e")))
	f.Fuzz(func(t *testing.T, b []byte) {
		req := new(legacypb.InvokeRequest)
		unread := (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(b, req)
		k, err := dialect.ReadLegacyKey(b)
		switch {
		case err == nil && unread != nil:
			t.Fatalf("ReadLegacyKey accepts what protobuf refuses: %v", unread)
		case err == nil && legacyText(k) != requestText(req):
			t.Fatalf("got %s, want %s", legacyText(k), requestText(req))
		case unread != nil || len(req.GetContext()) > 128 || marked(req.GetToolName(), req.GetParameters()):
			return
		}
		for name, value := range req.GetContext() {
			if marked(name, value) {
				return
			}
		}
		written, err := proto.Marshal(req)
		check.Must(t, err)
		if k, err := dialect.ReadLegacyKey(written); err != nil || legacyText(k) != requestText(req) {
			t.Fatalf("of what protobuf writes got %s, %v; want %s", legacyText(k), err, requestText(req))
		}
	})
}

func requestText(req *legacypb.InvokeRequest) string {
	said := req.GetContext()
	return strings.Join([]string{req.GetToolName(), req.GetParameters(), said["session_id"], said["capability_id"],
		said["user_id"], said["config_json"]}, "|")
}

func BenchmarkReadLegacyKey(b *testing.B) {
	msg := wire(str(1, "get_current_weather"), str(2, strings.Repeat("a", 1024)), entry("session_id", "session"),
		entry("user_id", "ann"), entry("color", "blue"))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := dialect.ReadLegacyKey(msg); err != nil {
			b.Fatal(err)
		}
	}
}
