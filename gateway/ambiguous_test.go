package gateway_test

import (
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/examples/openparallax/engine"
	"github.com/capgate/capgate/gateway/dialect"
	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

func field(num protowire.Number, value string) string {
	return string(protowire.AppendString(protowire.AppendTag(nil, num, protowire.BytesType), value))
}

// ambiguous holds bytes after field 1 that two decoders may read differently in any message.
var ambiguous = map[string]string{
	"field 1 again, as a varint for protobuf.js": "\x08\x03\x4a\x01x",
	"field 1 again, by a tag that is long":       "\x8a\x00\x03abc",
	"field 1 again":                              field(1, "abc"),
	"a length that is long":                      "\x4a\x81\x00x",
	"a group":                                    "\x4b\x4c",
	"field 0":                                    "\x02\x01x",
	"a number above 2^29-1":                      "\x8a\x80\x80\x80\x10\x03abc",
}

// TestAmbiguousMessage: in every dialect, a first message that two decoders may read differently does not reach
// a backend, and the error says what is wrong with it.
func TestAmbiguousMessage(t *testing.T) {
	t.Parallel()
	for _, d := range []call.Dialect{call.Doc, call.Live, call.Legacy} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			f := startFront(t, d, d)
			peer := dialRaw(t, f.gateway)
			tests := map[string]string{}
			for name, follows := range ambiguous {
				tests[name] = field(1, gatewaytest.Echo) + follows
			}
			text := "\xff"
			if d == call.Legacy {
				entry := func(fields ...string) string { return field(3, strings.Join(fields, "")) }
				session := field(1, "session_id") + field(2, "s")
				tests["an entry that upb drops"] = entry(session, field(3, "x"))
				tests["an entry's value twice"] = entry(session, field(2, "s"))
				tests["a name twice"] = entry(session) + entry(session)
				tests["a value that is not UTF-8"] = entry(field(1, "color"), field(2, text))
				tests["parameters that are not UTF-8"] = field(2, text)
			} else {
				tests["a session as a number"] = "\x20\x01"
				tests["a thread that is not UTF-8"] = field(6, text)
				tests["arguments twice"] = field(2, "{}") + field(2, "{}")
			}
			tests["a tool that is not UTF-8"] = field(1, text)
			tests["a byte order mark, which some drop"] = field(1, "\ufeff"+gatewaytest.Echo)
			for name, message := range tests {
				for _, m := range []call.Method{call.Invoke, call.StreamInvoke} {
					path, has := dialect.Path(m, d)
					if !has {
						continue
					}
					a := peer.call(plainFields(path), rawhttp2.Message([]byte(message)))
					if a.code != codes.InvalidArgument || a.reason != "AMBIGUOUS_MESSAGE" ||
						a.fields["grpc-message"] == "" {
						t.Errorf("%s, %s: %v %s %q", m, name, a.code, a.reason, a.fields["grpc-message"])
					}
				}
			}
			if seen := f.capability.Seen(); len(seen) > 0 {
				t.Errorf("%d calls reached the backend: %v", len(seen), seen)
			}
			// The connection stays usable, and messages of real encoders pass.
			path, _ := dialect.Path(call.Invoke, d)
			if a := peer.call(plainFields(path),
				rawhttp2.Message([]byte(field(1, gatewaytest.Echo)+field(1000, "new")))); a.code != codes.OK {
				t.Errorf("a field of a newer schema: %v", a)
			}
		})
	}
}

// TestAmbiguousDownload: the artifact's id in a download is read just as strictly.
func TestAmbiguousDownload(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Live, call.Live)
	id := f.capability.Keep(gatewaytest.File{Name: "a.txt", Data: []byte("a")})
	peer := dialRaw(t, f.gateway)
	path, _ := dialect.Path(call.DownloadOutputArtifact, call.Live)
	for name, follows := range ambiguous {
		if a := peer.call(plainFields(path),
			rawhttp2.Message([]byte(field(1, id)+follows))); a.code != codes.InvalidArgument ||
			a.reason != "AMBIGUOUS_MESSAGE" {
			t.Errorf("%s: %v %s", name, a.code, a.reason)
		}
	}
	if seen := f.capability.Seen(); len(seen) > 0 {
		t.Errorf("%d calls reached the backend", len(seen))
	}
	if a := peer.call(plainFields(path), rawhttp2.Message([]byte(field(1, id)))); a.code != codes.OK {
		t.Errorf("a download: %v", a)
	}
}

// TestOnlyOneMessage: bytes after the only message of a call are not forwarded, however they are split into
// frames, since some servers decode the whole body as one message.
func TestOnlyOneMessage(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	peer := dialRaw(t, f.gateway)
	message := rawhttp2.Message([]byte(field(1, gatewaytest.Block) + field(2, "{}")))
	long := rawhttp2.Message([]byte(field(1, gatewaytest.Block) + field(2, strings.Repeat("x", 15<<10))))
	for name, body := range map[string][][]byte{
		"in its frame":              {bytes.Join([][]byte{message, message}, nil)},
		"a byte in its frame":       {append(bytes.Clone(message), 0)},
		"in the next":               {message, message},
		"a byte in the next":        {message, {0}},
		"a byte at the end of long": {long[:8<<10], append(bytes.Clone(long[8<<10:]), 0)},
		"after an empty frame":      {message, nil, message, nil},
	} {
		for _, m := range []call.Method{call.Invoke, call.StreamInvoke, call.DownloadOutputArtifact} {
			path, _ := dialect.Path(m, call.Doc)
			if a := peer.call(plainFields(path), body...); a.code != codes.InvalidArgument ||
				a.reason != "AMBIGUOUS_MESSAGE" {
				t.Errorf("%s, %s: %v %s", m, name, a.code, a.reason)
			}
		}
	}
	path, _ := dialect.Path(call.Invoke, call.Doc)
	echo := rawhttp2.Message([]byte(field(1, gatewaytest.Echo)))
	for name, body := range map[string][][]byte{"whole": {echo}, "in pieces": {echo[:3], echo[3:6], echo[6:]},
		"ended later": {echo, nil}} {
		if a := peer.call(plainFields(path), body...); a.code != codes.OK {
			t.Errorf("%s: %v", name, a)
		}
	}
}

// TestAmbiguousMessagesOfEngines: the session of a message, and what is approved, are read just as strictly.
func TestAmbiguousMessagesOfEngines(t *testing.T) {
	t.Parallel()
	b := &recordingBackend{}
	addr := rawEngine(t, b.serve)
	e := startEngines(t, &guard.Settings{Queue: 1}, engine.Config{},
		func(o *gatewaytest.Options) { o.Fleets[0].Backends = []string{addr} })
	peer := dialRaw(t, e.gateway)
	plain := func(method string) []string {
		return plainFields("/openparallax.v1.ClientService/"+method, "x-capability-id", "engine-1")
	}
	for method, requests := range map[string]map[string]string{
		"SendMessage": {"a session twice": field(2, "a") + field(2, "b"),
			"a mode as a text": field(2, "a") + field(3, "\x02")},
		"GetHistory": {"a session as a number": "\x08\x01", "a long tag": field(1, "a") + "\x8a\x00\x01b"},
		"ResolveApproval": {"an answer of 33 bits": field(1, "q") + "\x18\x80\x80\x80\x80\x10",
			"answers twice": field(1, "q") + "\x18\x00\x18\x01"},
		"ListSessions": {"a limit twice": "\x08\x01\x08\x02"},
	} {
		for follows, text := range ambiguous {
			requests[follows] = field(1, "s") + text
		}
		for name, request := range requests {
			if a := peer.call(plain(method), rawhttp2.Message([]byte(request))); a.code != codes.InvalidArgument ||
				a.reason != "AMBIGUOUS_MESSAGE" {
				t.Errorf("%s, %s: %v %s", method, name, a.code, a.reason)
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.path != "" {
		t.Errorf("%s reached the engine: %q", b.path, b.got)
	}
}

// TestOneGzipMember: a compressed message with several gzip members, of which tonic reads only the first, is
// rejected in every call that is decided by its message. So is a compressed message that is ambiguous.
func TestOneGzipMember(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Live, call.Live)
	peer := dialRaw(t, f.gateway)
	good := field(1, gatewaytest.Echo) + field(5, "caps")
	for name, test := range map[string]struct {
		packed []byte
		code   codes.Code
		reason string
	}{
		"one member": {packed(t, good), codes.OK, ""},
		"two": {slices.Concat(packed(t, field(1, "hidden")), packed(t, field(5, "caps"))),
			codes.InvalidArgument, "AMBIGUOUS_MESSAGE"},
		"an empty one after it": {slices.Concat(packed(t, good), packed(t, "")), codes.InvalidArgument,
			"AMBIGUOUS_MESSAGE"},
		"one after an empty one": {slices.Concat(packed(t, ""), packed(t, good)), codes.InvalidArgument,
			"AMBIGUOUS_MESSAGE"},
		"zeroes after it": {append(packed(t, good), make([]byte, 16)...), codes.InvalidArgument,
			"AMBIGUOUS_MESSAGE"},
		"no gzip after it":           {append(packed(t, good), "x"...), codes.InvalidArgument, "AMBIGUOUS_MESSAGE"},
		"an ambiguous message in it": {packed(t, good+field(5, "caps")), codes.InvalidArgument, "AMBIGUOUS_MESSAGE"},
		"cut off":                    {packed(t, good)[:15], codes.InvalidArgument, "REQUEST_MALFORMED"},
		"nothing":                    {nil, codes.InvalidArgument, "REQUEST_MALFORMED"},
	} {
		for _, m := range []call.Method{call.Invoke, call.StreamInvoke} {
			before := len(f.capability.Seen())
			path, _ := dialect.Path(m, call.Live)
			message := rawhttp2.Message(test.packed)
			message[0] = 1
			a := peer.call(without("x-capability-id", plainFields(path, "grpc-encoding", "gzip")), message)
			if a.code != test.code || a.reason != test.reason ||
				a.code != codes.OK && len(f.capability.Seen()) != before {
				t.Errorf("%s, %s: %v %s %q", m, name, a.code, a.reason, a.fields["grpc-message"])
			}
		}
	}
}

func packed(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	check.Must(t, w.Close())
	return b.Bytes()
}
