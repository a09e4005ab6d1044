package gateway_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/catalog"
	"github.com/capgate/capgate/router"
)

// end is the end of a call, for its caller and in the log.
type end struct {
	result, failure string
	done            bool // the last message was received, in streaming calls
	code            codes.Code
	reason          string // of the gateway, or of the backend
	outcome         string // logged
}

func (e end) String() string {
	return fmt.Sprintf("result %q, failure %q, done %v, %s %s, logged %q", e.result, e.failure, e.done, e.code,
		e.reason, e.outcome)
}

func succeeds(result string) end { return end{result: result, done: true, outcome: "success"} }

func fails(text string) end { return end{failure: text, done: true, outcome: "tool_error"} }

func refuses(code codes.Code, reason string) end { return end{code: code, reason: reason} }

// outcomeGateway is a gateway with one fleet for each possible outcome of a call.
type outcomeGateway struct {
	*front
	asks, speaks call.Dialect                       // of the client and of the backends
	left         *gatewaytest.Capability            // by caller
	lost         map[string]*gatewaytest.Capability // by the RPC during which it ends
	stop         map[string]func()
	filed        map[string]string // ids of files by their content
}

func startOutcomeGateway(t *testing.T, client, backend call.Dialect) *outcomeGateway {
	t.Helper()
	f := &front{capability: gatewaytest.NewCapability("b1")}
	f.backend = f.capability.Serve(t, backend)
	w := &outcomeGateway{front: f, asks: client, speaks: backend, left: gatewaytest.NewCapability("left"),
		lost: map[string]*gatewaytest.Capability{}, stop: map[string]func(){}, filed: map[string]string{}}
	for _, content := range []string{"", binaryFile, textFile} {
		w.filed[content] = f.capability.Keep(fileOf(content))
	}
	short := 50 * time.Millisecond
	at := []string{f.backend.Addr}
	fleets := []gatewaytest.Fleet{
		{Capability: "caps", Backends: at},
		{Capability: "slow", Backends: at, Deadlines: router.Deadlines{Default: short, Max: short, Stream: short}},
		{Capability: "gone", Backends: []string{gatewaytest.Unreachable(t)}, Dialect: backend, Unprobed: true},
		{Capability: "down", Backends: []string{check.ClosedPort(t)}, Dialect: backend},
		{Capability: "shut", Backends: at},
		{Capability: "left", Backends: []string{w.left.Serve(t, backend).Addr}},
	}
	for _, rpc := range rpcs {
		c := gatewaytest.NewCapability("lost")
		served := c.Serve(t, backend)
		w.lost[rpc], w.stop[rpc] = c, served.Stop
		fleets = append(fleets, gatewaytest.Fleet{Capability: "lost-" + strings.ToLower(rpc),
			Backends: []string{served.Addr}})
	}
	authors := map[string]catalog.Declaration{}
	for _, fleet := range fleets {
		authors[fleet.Capability] = catalog.Declaration{Policy: call.Allow}
	}
	authors["shut"] = catalog.Declaration{Policy: call.Block}
	tools := catalog.New(catalog.Options{})
	tools.Replace(authors)
	f.gateway = gatewaytest.Start(t, gatewaytest.Options{Policy: policy.Options{Source: tools}, Fleets: fleets})
	f.conn = f.gateway.Conn(t)
	f.client = gatewaytest.NewClient(f.conn, client)
	return w
}

// TestEveryOutcomeInEveryDialect: in every pair of dialects, the caller gets the backend's outcome, which is
// logged and counted once.
func TestEveryOutcomeInEveryDialect(t *testing.T) {
	every(t, func(t *testing.T, client, backend call.Dialect) {
		w := startOutcomeGateway(t, client, backend)
		calls := 0
		for _, rpc := range rpcs {
			for _, test := range outcomesOf(rpc, client, backend) {
				if rpc != "Healthcheck" {
					test.want = within(test, rpc, client, backend)
				}
				got := w.run(t, rpc, test)
				calls++
				line := w.gateway.Log.Calls(t, calls)[calls-1]
				got.outcome = line.Text("outcome")
				if test.want.code == codes.DeadlineExceeded {
					got.reason = "" // it has one if the gateway noticed the deadline first
				}
				if got != test.want {
					t.Errorf("%s of %s at %s:\n got %v\nwant %v", rpc, test.what, test.capability, got, test.want)
				}
				w.logged(t, rpc, test, client, line)
			}
		}
		lines := w.gateway.Log.Calls(t, calls)
		countedViews := map[string]float64{}
		for sample, n := range w.gateway.Metrics(t) {
			if name, labels, _ := strings.Cut(sample, "{"); name == "capgate_calls_total" {
				countedViews[labelOf(labels, "code")] += n
			}
		}
		for _, line := range lines {
			countedViews[line.Text("code")]--
		}
		maps.DeleteFunc(countedViews, func(_ string, n float64) bool { return n == 0 })
		if len(lines) != calls || len(countedViews) != 0 {
			t.Errorf("%d calls are logged, of %d; counted by code otherwise than logged: %v", len(lines), calls,
				countedViews)
		}
	})
}

// labelOf returns the value of a label in the text form of a metric's labels.
func labelOf(labels, name string) string {
	_, rest, _ := strings.Cut(labels, name+`="`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// within returns the outcome of a call if its dialects can express it; otherwise the call is rejected.
func within(test rpcCase, rpc string, client, backend call.Dialect) end {
	files := rpc == "UploadInputArtifact" || rpc == "DownloadOutputArtifact"
	switch {
	case test.capability == "nope":
	case client == call.Legacy && rpc != "Invoke", backend == call.Legacy && files:
		return refuses(codes.Unimplemented, "DIALECT_UNSUPPORTED")
	}
	return test.want
}

// logged checks the log line of a call.
func (w *outcomeGateway) logged(t *testing.T, rpc string, test rpcCase, client call.Dialect, line gatewaytest.Line) {
	t.Helper()
	what := fmt.Sprintf("%s of %s at %s: logged %v", rpc, test.what, test.capability, line)
	code := codeName(test.want.code)
	known := client != call.Legacy || rpc == "Invoke" || rpc == "Healthcheck"
	if line.Text("code") != code || known && (line.Text("method") != rpc ||
		line.Text("dialect") != client.String()) || !known && line.Text("method") != "Other" {
		t.Error(what, code, known)
	}
	if test.capability != "caps" || test.how == late || test.want.reason == "DIALECT_UNSUPPORTED" ||
		rpc == "Healthcheck" {
		return
	}
	tool := test.what
	if rpc != "Invoke" && rpc != "StreamInvoke" {
		tool = ""
	}
	if line.Text("tool") != tool || line.Text("backend") != w.backend.Addr {
		t.Error(what)
	}
}

// soonLate is the context of a call that reaches the gateway with 50 ms left, however slow the machine is.
type soonLate struct{ context.Context }

// Deadline implements context.Context. The gateway alone enforces it.
func (soonLate) Deadline() (time.Time, bool) { return time.Now().Add(50 * time.Millisecond), true }

// run makes a call and returns how it ended for its caller.
func (w *outcomeGateway) run(t *testing.T, rpc string, test rpcCase) end {
	t.Helper()
	if test.capability == "lost" {
		test.capability += "-" + strings.ToLower(rpc)
	}
	ctx, cancel := context.WithCancel(to(t.Context(), test.capability))
	defer cancel()
	if test.want.reason != "DIALECT_UNSUPPORTED" { // otherwise the call does not reach it
		switch test.how {
		case left:
			defer when(t, w.left.Blocked(), cancel)()
		case lost:
			defer when(t, w.lost[rpc].Blocked(), w.stop[rpc])()
		}
	}
	if test.how == late && test.want.reason != "DIALECT_UNSUPPORTED" {
		ctx = soonLate{ctx}
	}
	e, err := w.ask(ctx, t, rpc, test)
	if e.code = status.Code(err); e.code != codes.OK {
		e.reason = errorInfo(err).GetReason()
	}
	return e
}

// when runs do when a channel delivers, and returns a function that waits for it.
func when(t *testing.T, ch <-chan struct{}, do func()) (wait func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-ch
		do()
	}()
	return func() { check.Received(t, done, "the call to reach its backend") }
}

func codeName(c codes.Code) string {
	return map[codes.Code]string{
		codes.OK: "OK", codes.DataLoss: "DATA_LOSS", codes.InvalidArgument: "INVALID_ARGUMENT",
		codes.DeadlineExceeded: "DEADLINE_EXCEEDED",
		codes.Unavailable:      "UNAVAILABLE", codes.PermissionDenied: "PERMISSION_DENIED", codes.NotFound: "NOT_FOUND",
		codes.Unimplemented: "UNIMPLEMENTED",
		codes.Canceled:      "CANCELLED", codes.Internal: "INTERNAL", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
	}[c]
}

// TestFilesOfTheLegacyDialect: methods that a dialect lacks are rejected with a reason.
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
			who = "the legacy dialect of this call has no "
		}
		for rpc, err := range map[string]error{"UploadInputArtifact": upErr, "DownloadOutputArtifact": downErr} {
			if status.Code(err) != codes.Unimplemented || errorInfo(err).GetReason() != "DIALECT_UNSUPPORTED" ||
				!strings.Contains(err.Error(), who+rpc) {
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
