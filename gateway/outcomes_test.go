package gateway_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

// end is how a call ended, for its caller and in the log.
type end struct {
	result, failure string
	done            bool // its last chunk was there, of those that stream
	code            codes.Code
	reason          string // of the gateway, or of the backend
	outcome         string // logged
}

func (e end) String() string {
	return fmt.Sprintf("result %q, failure %q, done %v, %s %s, logged %q", e.result, e.failure, e.done, e.code, e.reason, e.outcome)
}

// world is a gateway with a fleet for each thing that can become of a call.
type world struct {
	*front
	lost *gatewaytest.Capability
	stop func()
}

func startWorld(t *testing.T, client, backend call.Dialect) *world {
	t.Helper()
	f := &front{capability: gatewaytest.NewCapability("b1")}
	f.backend = f.capability.Serve(t, backend)
	w := &world{front: f, lost: gatewaytest.NewCapability("b2")}
	lost := w.lost.Serve(t, backend)
	w.stop = lost.Stop
	authors := map[string]catalog.Author{"caps": {Fleet: call.Allow}, "slow": {Fleet: call.Allow}, "gone": {Fleet: call.Allow}, "lost": {Fleet: call.Allow}, "shut": {Fleet: call.Block}}
	tools := catalog.New(catalog.Options{})
	tools.Replace(authors)
	short := 50 * time.Millisecond
	f.gateway = gatewaytest.Start(t, gatewaytest.Options{
		Policy: policy.Options{Source: tools},
		Fleets: []gatewaytest.Fleet{
			{Capability: "caps", Backends: []string{f.backend.Addr}},
			{Capability: "slow", Backends: []string{f.backend.Addr}, Deadlines: router.Deadlines{Default: short, Max: short, Stream: short}},
			{Capability: "gone", Backends: []string{gatewaytest.Unreachable(t)}, Dialect: backend, Unprobed: true},
			{Capability: "lost", Backends: []string{lost.Addr}},
			{Capability: "shut", Backends: []string{f.backend.Addr}},
		},
	})
	f.conn = f.gateway.Conn(t)
	f.client = gatewaytest.NewClient(f.conn, client)
	return w
}

// Whatever becomes of a call at its backend becomes of it at its caller, whichever dialects they
// speak; it is logged as that, and counted once.
func TestEveryOutcomeInEveryDialect(t *testing.T) {
	every(t, func(t *testing.T, client, backend call.Dialect) {
		w := startWorld(t, client, backend)
		mute := gatewaytest.MuteError
		if backend == call.Legacy && client != call.Legacy {
			mute = "the tool failed, and did not say why"
		}
		ok := func(result string) end { return end{result: result, done: true, outcome: "success"} }
		failed := func(text string) end { return end{failure: text, done: true, outcome: "tool_error"} }
		refused := func(code codes.Code, reason string) end { return end{code: code, reason: reason} }
		cases := []struct {
			capability, tool string
			want             end
		}{
			{"caps", gatewaytest.Echo, ok(`{"a":1}`)},
			{"caps", gatewaytest.Empty, ok("")},
			{"caps", gatewaytest.Fail, failed(`the tool failed for {"a":1}`)},
			{"caps", gatewaytest.Mute, failed(mute)},
			{"caps", gatewaytest.Break, refused(codes.DataLoss, "BROKE")},
			{"caps", "no such tool", refused(codes.InvalidArgument, "")},
			{"caps", gatewaytest.Cut, end{result: `{"a`, outcome: "incomplete"}},
			{"slow", gatewaytest.Block, refused(codes.DeadlineExceeded, "")},
			{"gone", gatewaytest.Echo, refused(codes.Unavailable, "BACKEND_UNREACHABLE")},
			{"shut", gatewaytest.Echo, refused(codes.PermissionDenied, "TOOL_BLOCKED")},
			{"nope", gatewaytest.Echo, refused(codes.NotFound, "CAPABILITY_UNKNOWN")},
			{"lost", gatewaytest.Block, refused(codes.Unavailable, "UPSTREAM_LOST")},
		}
		calls := 0
		for _, rpc := range []string{"Invoke", "StreamInvoke"} {
			for _, test := range cases {
				want := test.want
				switch {
				case test.capability == "lost" && rpc != "Invoke":
					continue // it is gone
				case rpc == "StreamInvoke" && client == call.Legacy:
					want = refused(codes.Unimplemented, "DIALECT_UNSUPPORTED")
					if test.capability == "nope" {
						want = refused(codes.NotFound, "CAPABILITY_UNKNOWN")
					}
				case test.tool == gatewaytest.Cut && (rpc == "Invoke" || backend == call.Legacy):
					want = ok(`{"a":1}`) // nothing is cut where nothing is streamed
				}
				if test.capability == "lost" {
					stopped := make(chan struct{})
					go func() {
						defer close(stopped)
						<-w.lost.Blocked()
						w.stop()
					}()
					defer func() { <-stopped }()
				}
				got := w.run(t, rpc, test.capability, test.tool)
				calls++
				line := w.gateway.Log.Calls(t, calls)[calls-1]
				got.outcome = line.Text("outcome")
				if test.capability == "slow" && want.code == codes.DeadlineExceeded {
					got.reason = "" // it has one where the gateway was first to look at the time
				}
				if got != want {
					t.Errorf("%s of %s at %s:\n got %v\nwant %v", rpc, test.tool, test.capability, got, want)
				}
				method := rpc
				if rpc == "StreamInvoke" && client == call.Legacy {
					method = "Other"
				}
				if line.Text("code") != codeName(want.code) || line.Text("method") != method || method == rpc && line.Text("dialect") != client.String() {
					t.Errorf("%s of %s at %s: logged %v", rpc, test.tool, test.capability, line)
				}
				if test.capability == "caps" && method == rpc && (line.Text("tool") != test.tool || line.Text("backend") != w.backend.Addr) {
					t.Errorf("%s of %s: logged %v", rpc, test.tool, line)
				}
			}
		}
		if got := sum(w.gateway.Metrics(t), "capgate_calls_total"); got != float64(calls) || len(w.gateway.Log.Calls(t, calls)) != calls {
			t.Errorf("%v calls are counted and %d logged, of %d", got, len(w.gateway.Log.Calls(t, calls)), calls)
		}
	})
}

// run makes a call, and says how it ended for its caller.
func (w *world) run(t *testing.T, rpc, capability, tool string) (e end) {
	t.Helper()
	req := &docpb.InvokeRequest{CapabilityId: capability, ToolName: tool, ArgsJson: []byte(`{"a":1}`)}
	ctx := to(t.Context(), capability)
	var err error
	if rpc == "Invoke" {
		var resp *docpb.InvokeResponse
		resp, err = w.client.Invoke(ctx, req)
		e.result, e.failure, e.done = string(resp.GetResultJson()), resp.GetError(), err == nil
	} else {
		var chunks []*docpb.InvokeChunk
		chunks, err = w.client.StreamInvoke(ctx, req)
		for _, c := range chunks {
			e.result += string(c.GetData())
			e.failure += c.GetError()
			e.done = c.GetDone()
		}
	}
	if e.code = status.Code(err); e.code != codes.OK {
		e.reason = errorInfo(err).GetReason()
	}
	return e
}

func codeName(c codes.Code) string {
	return map[codes.Code]string{
		codes.OK: "OK", codes.DataLoss: "DATA_LOSS", codes.InvalidArgument: "INVALID_ARGUMENT", codes.DeadlineExceeded: "DEADLINE_EXCEEDED",
		codes.Unavailable: "UNAVAILABLE", codes.PermissionDenied: "PERMISSION_DENIED", codes.NotFound: "NOT_FOUND", codes.Unimplemented: "UNIMPLEMENTED",
	}[c]
}

// What a dialect does not have is refused with a reason, whoever asks.
func TestFilesOfTheLegacyDialect(t *testing.T) {
	every(t, func(t *testing.T, client, backend call.Dialect) {
		if filed(client, backend) {
			return
		}
		f := startFront(t, client, backend)
		ctx := to(t.Context(), "caps")
		_, upErr := f.client.Upload(ctx, gatewaytest.File{Name: "a", Data: []byte("x")})
		_, downErr := f.client.Download(ctx, "b1-1")
		who := "the capability's backend speaks the legacy dialect, which has no "
		if client == call.Legacy {
			who = "the legacy dialect, in which the call is made, has no "
		}
		for rpc, err := range map[string]error{"UploadInputArtifact": upErr, "DownloadOutputArtifact": downErr} {
			if status.Code(err) != codes.Unimplemented || errorInfo(err).GetReason() != "DIALECT_UNSUPPORTED" || !strings.Contains(err.Error(), who+rpc) {
				t.Errorf("%s: %v", rpc, err)
			}
		}
		if seen := f.capability.Seen(); len(seen) != 0 {
			t.Errorf("the backend got %v", seen)
		}
		if lines := f.gateway.Log.Calls(t, 2); len(lines) != 2 {
			t.Errorf("logged %v", lines)
		}
	})
}
