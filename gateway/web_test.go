package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// webDialects are the dialects that a connect-go client may speak.
var webDialects = []struct {
	name    string
	options []connect.ClientOption
}{
	{"Connect", nil},
	{"Connect with JSON", []connect.ClientOption{connect.WithProtoJSON()}},
	{"Connect with gzip", []connect.ClientOption{connect.WithSendGzip()}},
	{"gRPC-Web", []connect.ClientOption{connect.WithGRPCWeb()}},
	{"gRPC-Web with JSON", []connect.ClientOption{connect.WithGRPCWeb(), connect.WithProtoJSON()}},
	{"gRPC-Web with gzip", []connect.ClientOption{connect.WithGRPCWeb(), connect.WithSendGzip()}},
	{"gRPC", []connect.ClientOption{connect.WithGRPC()}},
}

// webClient calls the doc capability.
type webClient struct {
	invoke   *connect.Client[docpb.InvokeRequest, docpb.InvokeResponse]
	stream   *connect.Client[docpb.InvokeRequest, docpb.InvokeChunk]
	upload   *connect.Client[docpb.UploadInputArtifactChunk, docpb.UploadInputArtifactResponse]
	download *connect.Client[docpb.DownloadOutputArtifactRequest, docpb.ArtifactChunk]
}

func newWebClient(client *http.Client, url string, options ...connect.ClientOption) *webClient {
	o := connect.WithClientOptions(options...)
	return &webClient{
		invoke: connect.NewClient[docpb.InvokeRequest, docpb.InvokeResponse](client,
			url+docpb.Capability_Invoke_FullMethodName, o),
		stream: connect.NewClient[docpb.InvokeRequest, docpb.InvokeChunk](client,
			url+docpb.Capability_StreamInvoke_FullMethodName, o),
		upload: connect.NewClient[docpb.UploadInputArtifactChunk, docpb.UploadInputArtifactResponse](client,
			url+docpb.Capability_UploadInputArtifact_FullMethodName, o),
		download: connect.NewClient[docpb.DownloadOutputArtifactRequest, docpb.ArtifactChunk](client,
			url+docpb.Capability_DownloadOutputArtifact_FullMethodName, o),
	}
}

// eachWeb runs a test with every protocol, over both versions of HTTP.
func eachWeb(t *testing.T, test func(t *testing.T, f *front, client *webClient)) {
	t.Parallel()
	someWeb(t, (*testing.T).Parallel, test, func(int, int) bool { return true })
}

// eachWebOnce runs an expensive test with every protocol, over the versions of HTTP in turn. It suits what
// depends on the protocol and not on the version of HTTP. No other test runs at the same time.
func eachWebOnce(t *testing.T, test func(t *testing.T, f *front, client *webClient),
	change ...func(*gatewaytest.Options)) {
	someWeb(t, func(*testing.T) {}, test, func(dialect, major int) bool { return major-1 == dialect%2 }, change...)
}

func someWeb(t *testing.T, begin func(*testing.T), test func(t *testing.T, f *front, client *webClient),
	chosen func(dialect, major int) bool, change ...func(*gatewaytest.Options)) {
	t.Helper()
	for i, d := range webDialects {
		for _, p := range protocols {
			if d.name == "gRPC" && p.major < 2 || d.name != "gRPC" && !chosen(i, p.major) {
				continue
			}
			t.Run(d.name+" over "+p.name, func(t *testing.T) {
				begin(t)
				f := startFront(t, call.Doc, call.Doc, change...)
				test(t, f, newWebClient(p.client(f.gateway, t), f.gateway.URL(""), d.options...))
			})
		}
	}
}

// all returns the messages of a stream, and how it ends.
func all(s *connect.ServerStreamForClient[docpb.InvokeChunk], err error) (text string, done bool, _ error) {
	if err != nil {
		return "", false, err
	}
	for s.Receive() {
		text, done = text+string(s.Msg().GetData()), s.Msg().GetDone()
	}
	return text, done, errors.Join(s.Err(), s.Close())
}

// reasonOf returns the reason in the google.rpc.ErrorInfo of a connect-go error.
func reasonOf(err error) string {
	var failed *connect.Error
	if !errors.As(err, &failed) {
		return ""
	}
	for _, d := range failed.Details() {
		if m, err := d.Value(); err == nil {
			if info, ok := m.(*errdetails.ErrorInfo); ok {
				return info.GetReason()
			}
		}
	}
	return ""
}

func TestWebClientsCallTools(t *testing.T) {
	eachWeb(t, func(t *testing.T, f *front, client *webClient) {
		args := `{"n":1e400,"ö":"` + strings.Repeat("x", 100_000) + `"}`
		resp, err := client.invoke.CallUnary(t.Context(), connect.NewRequest(request(gatewaytest.Echo, args)))
		if err != nil || string(resp.Msg.GetResultJson()) != args {
			t.Fatal("Invoke:", err, resp)
		}
		if got := resp.Trailer().Get("Served-By"); got != "b1" {
			t.Errorf("trailer served-by is %q", got)
		}
		resp, err = client.invoke.CallUnary(t.Context(), connect.NewRequest(request(gatewaytest.Fail, "{}")))
		if err != nil || resp.Msg.GetError() == "" {
			t.Errorf("a tool's own error: %v %v", resp, err)
		}
		text, done, err := all(client.stream.CallServerStream(t.Context(),
			connect.NewRequest(request(gatewaytest.Echo, args))))
		if err != nil || text != args || !done {
			t.Errorf("StreamInvoke: %d bytes, %v, %v", len(text), done, err)
		}
		text, done, err = all(client.stream.CallServerStream(t.Context(),
			connect.NewRequest(request(gatewaytest.Cut, args))))
		if err != nil || len(text) != len(args)/2 || done {
			t.Errorf("a stream without its last chunk: %d bytes, %v, %v", len(text), done, err)
		}
	})
}

func TestWebClientsLearnHowACallEnds(t *testing.T) {
	eachWeb(t, func(t *testing.T, f *front, client *webClient) {
		for _, test := range []struct {
			capability, tool string
			code             connect.Code
			reason, message  string
		}{
			{"caps", gatewaytest.Break, connect.CodeDataLoss, "BROKE", "broke: 100% of it, naïvely"},
			{"caps", "nosuch", connect.CodeInvalidArgument, "", `no tool "nosuch"`},
			{"nope", gatewaytest.Echo, connect.CodeNotFound, "CAPABILITY_UNKNOWN",
				`no capability "nope" is configured; GET /v1/capabilities lists those that you may call`},
		} {
			req := request(test.tool, "{}")
			req.CapabilityId = test.capability
			_, unary := client.invoke.CallUnary(t.Context(), connect.NewRequest(req))
			_, _, stream := all(client.stream.CallServerStream(t.Context(), connect.NewRequest(req)))
			for _, err := range []error{unary, stream} {
				var failed *connect.Error
				if !errors.As(err, &failed) || failed.Code() != test.code || reasonOf(err) != test.reason ||
					failed.Message() != test.message {
					t.Errorf("%s of %s: %v, reason %q", test.tool, test.capability, err, reasonOf(err))
				}
			}
		}
	})
}

// TestWebClientsAreAskedForAKey: the error is that of other clients, and browsers may read it.
func TestWebClientsAreAskedForAKey(t *testing.T) {
	t.Parallel()
	f := keyed(t, newKeyring(), call.Doc, call.Doc)
	for _, d := range webDialects {
		client := newWebClient(protocols[1].client(f.gateway, t), f.gateway.URL(""), d.options...)
		for key, want := range map[string]string{"": "Bearer", "cg_wrong": `Bearer error="invalid_token"`} {
			req := connect.NewRequest(request(gatewaytest.Echo, "{}"))
			again := connect.NewRequest(request(gatewaytest.Echo, "{}"))
			if key != "" {
				req.Header().Set("X-Api-Key", key)
				again.Header().Set("X-Api-Key", key)
			}
			_, unary := client.invoke.CallUnary(t.Context(), req)
			_, _, stream := all(client.stream.CallServerStream(t.Context(), again))
			for _, err := range []error{unary, stream} {
				var failed *connect.Error
				if !errors.As(err, &failed) || failed.Code() != connect.CodeUnauthenticated ||
					failed.Meta().Get("WWW-Authenticate") != want {
					t.Errorf("%s: %v, want a challenge %s; failed %+v", d.name, err, want, failed)
				}
			}
		}
	}
}

func TestWebClientsMetadataAndTimeReachTheBackend(t *testing.T) {
	eachWeb(t, func(t *testing.T, f *front, client *webClient) {
		ctx, cancel := context.WithTimeout(t.Context(), 70*time.Second)
		defer cancel()
		sent := http.Header{
			"X-Capability-Id": {"caps"}, "X-Request-Id": {"r"}, "X-Session-Id": {"s"},
			"Authorization": {"Bearer token"},
			"Many":          {"one", "two"},
			"Raw-Bin":       {connect.EncodeBinaryHeader([]byte("\x00\x01\xfe\xff"))}, "X-User-Id": {"mallory"},
			"X-Tenant-Id": {"mallory"}, "X-Capgate-Ticket": {"forged"},
		}
		invoke, stream := connect.NewRequest(request(gatewaytest.Echo, "{}")),
			connect.NewRequest(request(gatewaytest.Echo, "{}"))
		for name, values := range sent {
			invoke.Header()[name], stream.Header()[name] = values, values
		}
		if _, err := client.invoke.CallUnary(ctx, invoke); err != nil {
			t.Fatal(err)
		}
		if _, _, err := all(client.stream.CallServerStream(ctx, stream)); err != nil {
			t.Fatal(err)
		}
		for _, seen := range f.capability.Seen() {
			for name, want := range map[string][]string{
				"x-capability-id": {"caps"}, "x-request-id": {"r"}, "x-session-id": {"s"},
				"authorization": {"Bearer token"},
				"many":          {"one", "two"},
				"raw-bin":       {"\x00\x01\xfe\xff"}, "x-user-id": nil, "x-tenant-id": nil, "x-capgate-ticket": nil,
				"x-capgate-origin": nil,
				"content-type":     {"application/grpc"}, "connect-protocol-version": nil, "x-grpc-web": nil,
			} {
				if name == "content-type" { // the gRPC client chooses it
					continue
				}
				if got := seen.Metadata.Get(name); !slices.Equal(got, want) {
					t.Errorf("%s: %s is %q, want %q", seen.Path, name, got, want)
				}
			}
			if seen.Left <= 50*time.Second || seen.Left > 70*time.Second {
				t.Errorf("the backend has %v, want nearly 70s", seen.Left)
			}
		}
		if lines := f.gateway.Log.Calls(t, 2); len(lines) != 2 {
			t.Errorf("%d lines for 2 calls", len(lines))
		}
	})
}

func TestWebClientsUploadAndDownload(t *testing.T) {
	eachWeb(t, func(t *testing.T, f *front, client *webClient) {
		up := client.upload.CallClientStream(t.Context())
		up.RequestHeader().Set("X-Capability-Id", "caps")
		data := []byte(strings.Repeat("file ", 100_000))
		for i, part := range slices.Collect(slices.Chunk(data, 64<<10)) {
			chunk := &docpb.UploadInputArtifactChunk{Data: part}
			if i == 0 {
				chunk.Filename, chunk.MimeType = "f.txt", "text/plain"
			}
			check.Must(t, up.Send(chunk))
		}
		resp, err := up.CloseAndReceive()
		check.Must(t, err)
		req := connect.NewRequest(&docpb.DownloadOutputArtifactRequest{ArtifactId: resp.Msg.GetCapabilityArtifactId()})
		req.Header().Set("X-Capability-Id", "caps")
		down, err := client.download.CallServerStream(t.Context(), req)
		check.Must(t, err)
		var got []byte
		for down.Receive() {
			got = append(got, down.Msg().GetData()...)
		}
		if err := errors.Join(down.Err(), down.Close()); err != nil || string(got) != string(data) {
			t.Errorf("%d bytes of %d, %v", len(got), len(data), err)
		}
	})
}
