package gateway_test

import (
	"context"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// rpcs lists all RPCs that a dialect can have.
var rpcs = []string{"Invoke", "StreamInvoke", "UploadInputArtifact", "DownloadOutputArtifact", "Healthcheck"}

// rpcCase is one possible outcome of a call.
type rpcCase struct {
	capability string
	what       string // the tool; for files, their content or name
	want       end
	how        int // when the call ends, if not by itself
}

const (
	left = 1 + iota // its caller cancels
	late            // its deadline expires
	lost            // its backend ends
)

// The content of files. Decoded in another dialect the first is malformed, and the second is a name.
const (
	binaryFile = "\xff\x00\xfe"
	textFile   = "plain text"
)

func fileOf(content string) gatewaytest.File {
	return gatewaytest.File{Name: "ä.bin", MIME: "application/x-test", Data: []byte(content)}
}

// outcomesOf returns all possible outcomes of an RPC, if both dialects have it.
func outcomesOf(rpc string, client, backend call.Dialect) []rpcCase {
	silentConn := gatewaytest.MuteError
	if backend == call.Legacy && client != call.Legacy {
		silentConn = "the tool failed without an error message"
	}
	cut := end{result: `{"a`, outcome: "incomplete"}
	if rpc == "Invoke" || backend == call.Legacy {
		cut = succeeds(`{"a":1}`) // nothing is truncated where nothing is streamed
	}
	switch rpc {
	case "Healthcheck":
		return healthOutcomes()
	case "UploadInputArtifact":
		return append(failures(), []rpcCase{
			{"caps", binaryFile, succeeds("kept"), 0},
			{"caps", textFile, succeeds("kept"), 0},
			{"caps", "", succeeds("kept"), 0},
			{"caps", gatewaytest.RefusedFile, fails("this file is not wanted"), 0},
			{"shut", textFile, succeeds("kept"), 0}, // policy applies to tools
		}...)
	case "DownloadOutputArtifact":
		return append(failures(), []rpcCase{
			{"caps", binaryFile, succeeds("whole"), 0},
			{"caps", textFile, succeeds("whole"), 0},
			{"caps", "", succeeds("whole"), 0},
			{"caps", "no such file", fails("no such file"), 0},
			{"caps", gatewaytest.Cut, end{result: "some", outcome: "incomplete"}, 0},
			{"shut", textFile, succeeds("whole"), 0},
		}...)
	}
	return append(failures(), []rpcCase{
		{"caps", gatewaytest.Echo, succeeds(`{"a":1}`), 0},
		{"caps", gatewaytest.Empty, succeeds(""), 0},
		{"caps", gatewaytest.Fail, fails(`the tool failed for {"a":1}`), 0},
		{"caps", gatewaytest.Mute, fails(silentConn), 0},
		{"caps", gatewaytest.Cut, cut, 0},
		{"caps", "no such tool", refuses(codes.InvalidArgument, ""), 0},
		{"shut", gatewaytest.Echo, refuses(codes.PermissionDenied, "TOOL_BLOCKED"), 0},
	}...)
}

// failures are possible in every call.
func failures() []rpcCase {
	return []rpcCase{
		{"caps", gatewaytest.Break, refuses(codes.DataLoss, "BROKE"), 0},
		{"left", gatewaytest.Block, refuses(codes.Canceled, ""), left},
		{"caps", gatewaytest.Block, refuses(codes.DeadlineExceeded, ""), late},
		{"slow", gatewaytest.Block, refuses(codes.DeadlineExceeded, ""), 0},
		{"gone", gatewaytest.Echo, refuses(codes.Unavailable, "BACKEND_UNREACHABLE"), 0},
		{"nope", gatewaytest.Echo, refuses(codes.NotFound, "CAPABILITY_UNKNOWN"), 0},
		{"lost", gatewaytest.Block, refuses(codes.Unavailable, "UPSTREAM_LOST"), lost},
	}
}

func healthOutcomes() []rpcCase {
	return []rpcCase{
		{"caps", "", end{result: "ready"}, 0},
		{"shut", "", end{result: "ready"}, 0},
		{"down", "", end{}, 0},
		{"nope", "", refuses(codes.NotFound, "CAPABILITY_UNKNOWN"), 0},
	}
}

// ask makes a call and returns what was received before its status.
func (w *outcomeGateway) ask(ctx context.Context, t *testing.T, rpc string, test rpcCase) (e end, err error) {
	t.Helper()
	req := &docpb.InvokeRequest{CapabilityId: test.capability, ToolName: test.what, ArgsJson: []byte(`{"a":1}`),
		ConfigJson: []byte(`{"KEY":"k"}`)}
	switch rpc {
	case "Invoke":
		var resp *docpb.InvokeResponse
		resp, err = w.client.Invoke(ctx, req)
		e.result, e.failure, e.done = string(resp.GetResultJson()), resp.GetError(), err == nil
	case "StreamInvoke":
		var chunks []*docpb.InvokeChunk
		chunks, err = w.client.StreamInvoke(ctx, req)
		for _, c := range chunks {
			e.result += string(c.GetData())
			e.failure += c.GetError()
			e.done = c.GetDone()
		}
	case "UploadInputArtifact":
		return w.upload(ctx, t, test)
	case "DownloadOutputArtifact":
		return w.download(ctx, test)
	case "Healthcheck":
		var ready bool
		if ready, _, err = w.client.Healthcheck(ctx); ready {
			e.result = "ready"
		}
	}
	if e.result == `{"a":1}` {
		w.configured(t, rpc)
	}
	return e, err
}

// configured reports that the last call reached the backend with its configuration in the right place only; the
// context of a legacy client has none.
func (w *outcomeGateway) configured(t *testing.T, rpc string) {
	t.Helper()
	all := w.capability.Seen()
	seen := all[len(all)-1]
	want := `{"KEY":"k"}`
	switch {
	case w.asks == call.Legacy && w.speaks == call.Legacy:
		want = "k"
	case w.asks == call.Legacy:
		want = `{"context":{"KEY":"k"}}`
	}
	if got := string(seen.Request.GetConfigJson()) + seen.Context["config_json"] + seen.Context["KEY"]; got != want {
		t.Errorf("%s: configured with %q, %v", rpc, seen.Request.GetConfigJson(), seen.Context)
	}
}

func (w *outcomeGateway) upload(ctx context.Context, t *testing.T, test rpcCase) (e end, err error) {
	t.Helper()
	f := fileOf(test.what)
	if test.what == gatewaytest.RefusedFile || test.what == gatewaytest.Break || test.what == gatewaytest.Block {
		f.Name = test.what
	}
	up, err := w.client.Upload(ctx, f)
	e.failure, e.done = up.Error, err == nil
	if kept, there := w.capability.File(up.ID); there && sameFile(kept, f) {
		e.result = "kept"
	}
	return e, err
}

func (w *outcomeGateway) download(ctx context.Context, test rpcCase) (e end, err error) {
	id, there := w.filed[test.what]
	if !there {
		id = test.what
	}
	f, err := w.client.Download(ctx, id)
	switch {
	case err == nil && sameFile(f, fileOf(test.what)):
		return end{result: "whole", done: true}, nil
	case err != nil && err.Error() == "no such file":
		return end{failure: err.Error(), done: true}, nil
	case err != nil && err.Error() == "the file is cut off":
		return end{result: string(f.Data)}, nil
	}
	return e, err
}
