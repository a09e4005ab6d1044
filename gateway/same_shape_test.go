package gateway_test

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// recordingBackend is a backend of any service that records requests and sends prepared responses.
type recordingBackend struct {
	mu     sync.Mutex
	answer [][]byte
	got    [][]byte
	path   string
	agent  []string
}

func (b *recordingBackend) serve(_ any, stream grpc.ServerStream) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	md, _ := metadata.FromIncomingContext(stream.Context())
	b.got, b.agent = nil, md.Get("user-agent")
	b.path, _ = grpc.MethodFromServerStream(stream)
	var msg []byte
	for stream.RecvMsg(&msg) == nil {
		b.got = append(b.got, msg)
	}
	for i := range b.answer {
		if err := stream.SendMsg(&b.answer[i]); err != nil {
			return err
		}
	}
	return nil
}

// odd encodes fields as no encoder does: with overlong lengths and tags, unknown fields, a group, and values
// that are replaced later.
func odd(pieces ...[]byte) []byte {
	unknown := bytes.Join([][]byte{
		{0xc0, 0x3e, 0x81, 0x80, 0x00},                                 // 1000: varint 1, too long
		{0xf3, 0x01, 0x0a, 0x03, 'n', 'o', 't', 0xf4, 0x01},            // 30: a group with a field 1
		{0xfd, 0x01, 1, 2, 3, 4}, {0xf9, 0x01, 1, 2, 3, 4, 5, 6, 7, 8}, // 31: fixed32, fixed64
	}, nil)
	return append(bytes.Join(append([][]byte{unknown}, pieces...), unknown), unknown...)
}

// newer encodes fields as an encoder of a newer schema may, including unknown ones.
func newer(pieces ...[]byte) []byte {
	unknown := bytes.Join([][]byte{
		{0xc0, 0x3e, 0x81, 0x80, 0x00},                                 // 1000: varint 1, too long
		{0xfd, 0x01, 1, 2, 3, 4}, {0xf9, 0x01, 1, 2, 3, 4, 5, 6, 7, 8}, // 31: fixed32, fixed64
		{0xc2, 0x3e, 0x01, 0xff}, // 1000: bytes
	}, nil)
	return append(bytes.Join(append([][]byte{unknown}, pieces...), unknown), unknown...)
}

func text(num protowire.Number, s string) []byte { return []byte(field(num, s)) }

// longText returns a field with an overlong tag and length.
func longText(num byte, s string) []byte {
	return append([]byte{num<<3 | 2 | 0x80, 0x80, 0x00, byte(len(s)&0x7f) | 0x80, byte(len(s)>>7) | 0x80, 0x00}, s...)
}

func longBool(num byte, v bool) []byte {
	if v {
		return []byte{num<<3 | 0x80, 0x00, 0x81, 0x80, 0x00}
	}
	return []byte{num<<3 | 0x80, 0x00, 0x80, 0x80, 0x00}
}

// TestSameShapesAreUntouched: between two dialects of the same shape, no byte of a message changes, apart from
// what is read, the call bypasses the translator, and its outcome is known all the same.
func TestSameShapesAreUntouched(t *testing.T) {
	t.Parallel()
	request := newer(text(2, "{\xff}"), text(5, "caps"), text(3, "\xfe"), text(1, "tool"), text(4, "s"))
	legacy := newer(text(3, field(1, "capability_id")+field(2, "caps")), text(2, "{}"), text(3, field(1, "color")),
		text(1, "tool"))
	chunk := odd(longText(3, "text"), longText(2, "f"), longText(1, "\xff"))
	rubbish := []byte("\xff\xff\xff no message, \x07\x0f")
	flag := func(num byte, v bool) []byte { return longBool(num, v) }
	for _, test := range []struct {
		method  call.Method
		pairs   string // client-backend
		sent    [][]byte
		answer  [][]byte
		outcome string
	}{
		{call.Invoke, "doc-doc doc-live live-doc live-live", [][]byte{request},
			[][]byte{odd(longText(1, "\xff"), longText(2, ""))}, "success"},
		{call.Invoke, "doc-doc doc-live live-doc live-live", [][]byte{request},
			[][]byte{odd(longText(2, "e"), longText(1, "\xff"))}, "tool_error"},
		{call.StreamInvoke, "doc-doc doc-live live-doc live-live", [][]byte{request},
			[][]byte{odd(longText(1, "\xff")), odd(flag(2, false)), odd(flag(2, true))}, "success"},
		{call.StreamInvoke, "doc-doc doc-live live-doc live-live", [][]byte{request},
			[][]byte{odd(longText(1, "\xff"), flag(2, true)), odd(flag(2, false))}, "incomplete"},
		{call.DownloadOutputArtifact, "doc-doc doc-live live-doc live-live", [][]byte{newer(text(1, "id"))},
			[][]byte{odd(longText(1, "\xff")), odd(flag(4, true), longText(5, "e"))}, "tool_error"},
		{call.UploadInputArtifact, "doc-doc live-live", [][]byte{chunk, chunk, nil}, [][]byte{odd(longText(1, "id"))},
			"success"},
		// Bytes that are not protobuf pass if no filter reads them.
		{call.Invoke, "doc-doc doc-live live-doc live-live", [][]byte{request}, [][]byte{rubbish}, ""},
		{call.StreamInvoke, "doc-doc doc-live live-doc live-live", [][]byte{request}, [][]byte{rubbish, rubbish, nil},
			""},
		{call.DownloadOutputArtifact, "doc-doc doc-live live-doc live-live", [][]byte{newer(text(1, "id"))},
			[][]byte{rubbish, nil, rubbish}, ""},
		{call.UploadInputArtifact, "doc-doc live-live", [][]byte{rubbish, nil, rubbish}, [][]byte{rubbish}, ""},
		{call.Invoke, "legacy-legacy", [][]byte{legacy}, [][]byte{rubbish}, ""},
		{call.Invoke, "legacy-legacy", [][]byte{legacy},
			[][]byte{odd(flag(2, false), longText(1, "\xff"), flag(2, true), longText(3, "e"))}, "success"},
		{call.Invoke, "legacy-legacy", [][]byte{legacy}, [][]byte{odd(flag(2, true), longText(1, "{}"),
			flag(2, false))},
			"tool_error"},
		{call.Invoke, "legacy-legacy", [][]byte{legacy}, [][]byte{nil}, "tool_error"},
	} {
		for pair := range strings.FieldsSeq(test.pairs) {
			t.Run(fmt.Sprint(test.method, " ", pair, " ", test.outcome), func(t *testing.T) {
				t.Parallel()
				from, to, _ := strings.Cut(pair, "-")
				client, _ := call.ParseDialect(from)
				backend, _ := call.ParseDialect(to)
				b := &recordingBackend{answer: test.answer}
				served := gatewaytest.Serve(t, func(*grpc.Server) {}, grpc.UnknownServiceHandler(b.serve),
					grpc.ForceServerCodec(rawCodec{}))
				g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps",
					Backends: []string{served.Addr}, Dialect: backend, Unprobed: true}}})
				path, _ := dialect.Path(test.method, client)
				ctx := t.Context()
				if test.method != call.Invoke && test.method != call.StreamInvoke {
					ctx = metadata.AppendToOutgoingContext(ctx, "x-capability-id", "caps")
				}
				stream, err := g.Conn(t, grpc.WithUserAgent("tape")).NewStream(ctx,
					&grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, path, grpc.ForceCodec(rawCodec{}))
				check.Must(t, err)
				for i := range test.sent {
					check.Must(t, stream.SendMsg(&test.sent[i]))
				}
				check.Must(t, stream.CloseSend())
				var got [][]byte
				for {
					var msg []byte
					if stream.RecvMsg(&msg) != nil {
						break
					}
					got = append(got, msg)
				}
				line := g.Log.Calls(t, 1)[0]
				if line.Text("code") != "OK" || line.Text("outcome") != test.outcome || line.Text("dialect") != from {
					t.Errorf("logged %v", line)
				}
				b.mu.Lock()
				defer b.mu.Unlock()
				want, _ := dialect.Path(test.method, backend)
				if b.path != want || len(b.agent) != 1 || !strings.HasPrefix(b.agent[0], "tape ") {
					t.Errorf("the backend was called by %s, from %q", b.path, b.agent)
				}
				if !same(b.got, test.sent) || !same(got, test.answer) {
					t.Errorf("the backend got %q\nthe caller got %q", b.got, got)
				}
			})
		}
	}
}

func same(a, b [][]byte) bool {
	return bytes.Equal(bytes.Join(a, []byte("|")), bytes.Join(b, []byte("|"))) && len(a) == len(b)
}

// TestOddMessagesAreProtobuf: the messages of the test are well formed, however odd.
func TestOddMessagesAreProtobuf(t *testing.T) {
	t.Parallel()
	for b := odd(longText(1, "a"), longBool(2, true)); len(b) > 0; {
		_, _, n := protowire.ConsumeField(b)
		if n < 0 {
			t.Fatalf("got %q", b)
		}
		b = b[n:]
	}
}
