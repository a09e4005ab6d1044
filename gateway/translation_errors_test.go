package gateway_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/capgate/capgate/gateway/dialect"
	"github.com/capgate/capgate/internal/audit"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// requireOutcome requires that the gateway's only call is logged and counted with the result that its caller got,
// although its backend sent another.
func requireOutcome(t *testing.T, f *front, code codes.Code, reason string) {
	t.Helper()
	line := f.gateway.Log.Calls(t, 1)[0]
	if line.Text("code") != codeName(code) || line.Text("reason") != reason || line.Text("outcome") != "" {
		t.Errorf("logged %v", line)
	}
	countedViews := 0.0
	for sample, n := range f.gateway.Metrics(t) {
		if strings.HasPrefix(sample, "capgate_calls_total{") {
			if countedViews += n; n != 0 && labelOf(sample, "code") != codeName(code) {
				t.Errorf("counted: %s %v", sample, n)
			}
		}
	}
	if countedViews != 1 {
		t.Errorf("%v calls are counted", countedViews)
	}
}

// TestUntranslatableResponses: a response that the caller's dialect cannot express is an error with a reason,
// for the caller and for the operator.
func TestUntranslatableResponses(t *testing.T) {
	t.Parallel()
	invoke, upload := call.Invoke, call.UploadInputArtifact
	badText := func() []byte { return protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "\xff") }
	for _, test := range []struct {
		name            string
		method          call.Method
		client, backend call.Dialect
		answer          func() []byte
		code            codes.Code
		reason          string
	}{
		{"no message of legacy", invoke, call.Doc, call.Legacy, badText, codes.Internal, "ANSWER_MALFORMED"},
		{"no message of doc", invoke, call.Legacy, call.Doc, malformed, codes.Internal, "ANSWER_MALFORMED"},
		{"no text", invoke, call.Legacy, call.Live, badText, codes.DataLoss, "DIALECT_TEXT_ONLY"},
		{"too long", invoke, call.Live, call.Legacy, messageTooLong, codes.ResourceExhausted, "MESSAGE_TOO_LARGE"},
		{"no reply of live", upload, call.Doc, call.Live, badText, codes.Internal, "ANSWER_MALFORMED"},
		{"no reply of doc", upload, call.Live, call.Doc, malformed, codes.Internal, "ANSWER_MALFORMED"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := &recordingBackend{answer: [][]byte{test.answer()}}
			f := &front{backend: gatewaytest.Serve(t, func(*grpc.Server) {}, grpc.UnknownServiceHandler(b.serve),
				grpc.ForceServerCodec(rawCodec{}))}
			path := filepath.Join(t.TempDir(), "audit")
			log, err := audit.Open(audit.Config{Path: path})
			check.Must(t, err)
			check.Cleanup(t, log.Close)
			f.gateway = gatewaytest.Start(t, gatewaytest.Options{Audit: log, Fleets: []gatewaytest.Fleet{
				{Capability: "caps", Backends: []string{f.backend.Addr}, Dialect: test.backend, Unprobed: true}}})
			f.client = gatewaytest.NewClient(f.gateway.Conn(t), test.client)
			if test.method == invoke {
				_, err = f.client.Invoke(t.Context(), request(gatewaytest.Echo, `{}`))
			} else {
				_, err = f.client.Upload(to(t.Context(), "caps"), gatewaytest.File{Name: "a"})
			}
			wants(t, err, test.code, test.reason)
			requireOutcome(t, f, test.code, test.reason)
			if line := f.gateway.Log.Calls(t, 1)[0]; line.Text("backend") != f.backend.Addr ||
				line.Text("dialect") != test.client.String() {
				t.Errorf("logged %v", line)
			}
			f.gateway.Stop(t)
			log.Close()
			text, err := os.ReadFile(path)
			if want := `"code":"` + codeName(test.code) + `","reason":"` + test.reason + `"`; err != nil ||
				strings.Count(string(text), `"method"`) != 1 || !strings.Contains(string(text), want) {
				t.Errorf("audited, without %s: %s, %v", want, text, err)
			}
		})
	}
}

// TestBackendStatusPassesUnchanged: a backend's own status passes unchanged, even one that the translator could have
// created.
func TestBackendStatusPassesUnchanged(t *testing.T) {
	t.Parallel()
	c := gatewaytest.NewCapability("b1")
	f := &front{backend: c.Serve(t, call.Legacy, grpc.MaxRecvMsgSize(1000))}
	f.gateway = gatewaytest.Start(t,
		gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{f.backend.Addr}}}})
	f.client = gatewaytest.NewClient(f.gateway.Conn(t), call.Doc)
	_, err := f.client.Invoke(t.Context(), request(gatewaytest.Echo, `"`+strings.Repeat("x", 1000)+`"`))
	wants(t, err, codes.ResourceExhausted, "")
	requireOutcome(t, f, codes.ResourceExhausted, "")
}

func malformed() []byte { return []byte{0xff} }

// messageTooLong creates a message when it is needed, so that waiting tests hold none.
func messageTooLong() []byte { return make([]byte, 16<<20+1) }

// TestUploadsThatCannotBeRead: an upload that cannot be translated is rejected with a reason, whichever chunk
// is malformed.
func TestUploadsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, client := range []call.Dialect{call.Doc, call.Live} {
		backend := map[call.Dialect]call.Dialect{call.Doc: call.Live, call.Live: call.Doc}[client]
		for name, test := range map[string]struct {
			before int // number of valid chunks
			last   func() []byte
			code   codes.Code
			reason string
		}{
			"malformed":       {0, malformed, codes.InvalidArgument, "REQUEST_MALFORMED"},
			"too long":        {0, messageTooLong, codes.ResourceExhausted, "MESSAGE_TOO_LARGE"},
			"malformed later": {2, malformed, codes.InvalidArgument, "REQUEST_MALFORMED"},
			"too long later":  {2, messageTooLong, codes.ResourceExhausted, "MESSAGE_TOO_LARGE"},
		} {
			t.Run(client.String()+", "+name, func(t *testing.T) {
				t.Parallel()
				f := startFront(t, client, backend)
				path, _ := dialect.Path(call.UploadInputArtifact, client)
				stream, err := f.conn.NewStream(to(t.Context(), "caps"),
					&grpc.StreamDesc{ClientStreams: true}, path, grpc.ForceCodec(rawCodec{}),
					grpc.MaxCallSendMsgSize(64<<20))
				check.Must(t, err)
				for range test.before {
					_ = stream.SendMsg(new([]byte)) // the response says more
				}
				last := test.last()
				_ = stream.SendMsg(&last)
				err = stream.RecvMsg(new([]byte))
				wants(t, err, test.code, test.reason)
				logged := test.reason
				if test.code == codes.ResourceExhausted {
					logged = "" // the status comes from the translator and is no refusal
				}
				requireOutcome(t, f, test.code, logged)
				if f.capability.Kept() != 0 {
					t.Error("the backend stored the upload")
				}
			})
		}
	}
}

// TestATranslatedCallThatIsLeft: a translated call that its caller cancels is recorded as canceled, whichever
// of its two streams ends first.
func TestATranslatedCallThatIsLeft(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Legacy)
	for n := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		wait := when(t, f.capability.Blocked(), cancel)
		_, err := f.client.Invoke(ctx, request(gatewaytest.Block, `{}`))
		wait()
		if status.Code(err) != codes.Canceled {
			t.Error(err)
		}
		if line := f.gateway.Log.Calls(t, n+1)[n]; line.Text("code") != "CANCELLED" ||
			line.Text("failure") != "CLIENT_GONE" || line.Text("backend") == "" {
			t.Errorf("logged %v", line)
		}
	}
	if n := f.gateway.Metrics(t)[`capgate_calls_in_flight{capability="caps"}`]; n != 0 {
		t.Errorf("%v calls are in flight", n)
	}
}
