package gateway_test

import (
	"slices"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
)

// without returns fields except those with a name.
func without(name string, fields []string) (rest []string) {
	for i := 0; i < len(fields); i += 2 {
		if fields[i] != name {
			rest = append(rest, fields[i], fields[i+1])
		}
	}
	return rest
}

// TestContentTypes: only the content types of protobuf are accepted for calls of a capability. Others would be
// decoded as JSON, or in unspecified ways.
func TestContentTypes(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Live, call.Live)
	peer := dialRaw(t, f.gateway)
	id := f.capability.Keep(gatewaytest.File{Name: "a.txt", Data: []byte("a")})
	for _, m := range []call.Method{call.Invoke, call.StreamInvoke, call.DownloadOutputArtifact,
		call.UploadInputArtifact, call.Healthcheck} {
		path, _ := dialect.Path(m, call.Live)
		first := gatewaytest.Echo
		if m == call.DownloadOutputArtifact {
			first = id
		}
		message := rawhttp2.Message([]byte(field(1, first)))
		fields := without("content-type", plainFields(path))
		for contentType, want := range map[string]codes.Code{
			"application/grpc": codes.OK, "application/grpc+proto": codes.OK,
			"application/grpc+json": codes.Unimplemented, "application/grpc+PROTO": codes.Unimplemented,
			"application/grpc;charset=utf-8": codes.Unimplemented,
			"application/grpc+proto; x=y":    codes.Unimplemented, "application/grpc+": codes.Unimplemented,
			"application/grpc+proto2": codes.Unimplemented,
		} {
			before := len(f.capability.Seen())
			a := peer.call(append(fields, "content-type", contentType), message)
			if a.code != want || want != codes.OK && (a.reason != "CONTENT_TYPE_UNSUPPORTED" ||
				len(f.capability.Seen()) != before) {
				t.Errorf("%s, %s: %v %s %q", m, contentType, a.code, a.reason, a.fields["grpc-message"])
			}
		}
	}
}

// TestRepeatedHeaders: a header that gRPC reads once is sent once, so that all readers see the same value.
func TestRepeatedHeaders(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	peer := dialRaw(t, f.gateway)
	path, _ := dialect.Path(call.Invoke, call.Doc)
	message := rawhttp2.Message([]byte(field(1, gatewaytest.Echo)))
	for name, more := range map[string][]string{
		"content-type":         {"content-type", "application/grpc+json"},
		"content-type of HTTP": {"content-type", "application/json"},
		"content-type, alike":  {"content-type", "application/grpc"},
		"te":                   {"te", "trailers"},
		"grpc-timeout":         {"grpc-timeout", "1S", "grpc-timeout", "1H"},
		"grpc-timeout, alike":  {"grpc-timeout", "1H", "grpc-timeout", "1H"},
		"grpc-encoding":        {"grpc-encoding", "identity", "grpc-encoding", "gzip"},
	} {
		for _, path := range []string{path, "/grpc.health.v1.Health/Check"} {
			if a := peer.call(plainFields(path, more...), message); a.code != codes.InvalidArgument ||
				a.reason != "AMBIGUOUS_HEADERS" {
				t.Errorf("%s, %s: %v %s", path, name, a.code, a.reason)
			}
		}
	}
	plain, pseudo := plainFields(path), 8
	if a := peer.call(slices.Concat(plain[:pseudo], []string{"content-type", "application/json"}, plain[pseudo:]),
		message); a.code != codes.InvalidArgument || a.reason != "AMBIGUOUS_HEADERS" {
		t.Errorf("content-type of HTTP before that of gRPC: %v %s", a.code, a.reason)
	}
	if seen := f.capability.Seen(); len(seen) > 0 {
		t.Errorf("%d calls reached the backend", len(seen))
	}
	if a := peer.call(plainFields(path, "grpc-accept-encoding", "gzip", "grpc-accept-encoding", "identity", "x-more",
		"a", "x-more", "b"), message); a.code != codes.OK {
		t.Errorf("lists in more than one header: %v", a)
	}
}

// TestExpiredCallsReachNoBackend: a call whose time is over never reaches a backend.
func TestExpiredCallsReachNoBackend(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Doc)
	peer := dialRaw(t, f.gateway)
	for _, m := range []call.Method{call.Invoke, call.StreamInvoke, call.UploadInputArtifact} {
		path, _ := dialect.Path(m, call.Doc)
		for _, timeout := range []string{"0S", "0n", "00000000H", "0m", "", "S", "1", "-1S", "+1S", "123456789S", "1s",
			"1.5S", "0x1S"} {
			a := peer.call(plainFields(path, "grpc-timeout", timeout),
				rawhttp2.Message([]byte(field(1, gatewaytest.Echo))))
			if a.code != codes.DeadlineExceeded || a.reason != "DEADLINE_EXCEEDED" {
				t.Errorf("%s, %q: %v %s", m, timeout, a.code, a.reason)
			}
		}
	}
	if seen := f.capability.Seen(); len(seen) > 0 {
		t.Errorf("%d calls reached the backend", len(seen))
	}
}
