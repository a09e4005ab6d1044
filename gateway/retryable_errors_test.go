package gateway_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway"
	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/rawhttp2"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

// callFailure is the error of a call as a client reads it.
type callFailure struct {
	text, reason string
	notStarted   bool
	again        bool   // RetryInfo or Retry-After requests a retry
	pushback     string // grpc-retry-pushback-ms; "" if the protocol has none
}

const translated = "gRPC, translated"

// eachCaller makes one call of the tool echo over a protocol, and returns how it failed.
var eachCaller = []struct {
	name   string
	grpc   bool // it gets the backend's trailers
	failed func(t *testing.T, g *gatewaytest.Gateway) callFailure
}{
	{"gRPC", true, func(t *testing.T, g *gatewaytest.Gateway) callFailure {
		var trailer metadata.MD
		_, err := gatewaytest.NewClient(g.Conn(t), call.Live).Invoke(t.Context(), request(gatewaytest.Echo, `{}`),
			grpc.Trailer(&trailer))
		return failureBy(err, trailer)
	}},
	{"gRPC, a stream", true, func(t *testing.T, g *gatewaytest.Gateway) callFailure {
		stream, err := docpb.NewCapabilityClient(g.Conn(t)).StreamInvoke(t.Context(), request(gatewaytest.Echo, `{}`))
		for err == nil {
			_, err = stream.Recv()
		}
		return failureBy(err, stream.Trailer())
	}},
	{translated, true, func(t *testing.T, g *gatewaytest.Gateway) callFailure {
		var trailer metadata.MD
		_, err := gatewaytest.NewClient(g.Conn(t), call.Legacy).Invoke(t.Context(), request(gatewaytest.Echo, `{}`),
			grpc.Trailer(&trailer))
		return failureBy(err, trailer)
	}},
	{"JSON", false, func(t *testing.T, g *gatewaytest.Gateway) callFailure {
		resp, body := post(t, g.HTTP1(t), g, "caps", `{"tool_name":"echo","args":{}}`)
		return failureByProblem(t, body, resp.Header.Get("Retry-After") != "")
	}},
	{"server-sent events", false, func(t *testing.T, g *gatewaytest.Gateway) callFailure {
		resp := ask(t.Context(), t, g.HTTP2(t), g, http.MethodPost, "caps/stream", `{"tool_name":"echo","args":{}}`,
			"Accept", asEvents)
		body := bodyOf(t, resp)
		if _, data, ok := strings.Cut(body, "event: error\ndata: "); ok {
			body = lastProblem(data)
		}
		return failureByProblem(t, body, resp.Header.Get("Retry-After") != "")
	}},
	{"lines", false, func(t *testing.T, g *gatewaytest.Gateway) callFailure {
		resp := ask(t.Context(), t, g.HTTP1(t), g, http.MethodPost, "caps/stream", `{"tool_name":"echo","args":{}}`,
			"Accept", asLines)
		lines := strings.Split(strings.TrimSpace(bodyOf(t, resp)), "\n")
		return failureByProblem(t, lastProblem(lines[len(lines)-1]), resp.Header.Get("Retry-After") != "")
	}},
	{"Connect", false, func(t *testing.T, g *gatewaytest.Gateway) callFailure {
		_, err := newWebClient(g.HTTP1(t), g.URL("")).invoke.CallUnary(t.Context(),
			connect.NewRequest(request(gatewaytest.Echo, `{}`)))
		return failureByConnect(err)
	}},
	{"Connect, a stream", false, func(t *testing.T, g *gatewaytest.Gateway) callFailure {
		_, _, err := all(newWebClient(g.HTTP2(t), g.URL("")).stream.CallServerStream(t.Context(),
			connect.NewRequest(request(gatewaytest.Echo, `{}`))))
		return failureByConnect(err)
	}},
	{"gRPC-Web", false, func(t *testing.T, g *gatewaytest.Gateway) callFailure {
		_, err := newWebClient(g.HTTP1(t), g.URL(""), connect.WithGRPCWeb()).invoke.CallUnary(t.Context(),
			connect.NewRequest(request(gatewaytest.Echo, `{}`)))
		return failureByConnect(err)
	}},
}

// lastProblem returns the problem in the last record of a stream; text that is not a record is the problem
// itself.
func lastProblem(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	var last struct {
		Problem json.RawMessage `json:"problem"`
	}
	if json.Unmarshal([]byte(text), &last) == nil && last.Problem != nil {
		return string(last.Problem)
	}
	return text
}

func failureBy(err error, trailer metadata.MD) callFailure {
	info := errorInfo(err)
	return callFailure{text: status.Convert(err).Message(), reason: info.GetReason(),
		notStarted: info.GetMetadata()[call.NotStarted] == "true", again: retryDelay(err) > 0,
		pushback: strings.Join(trailer.Get("grpc-retry-pushback-ms"), ",")}
}

func failureByProblem(t *testing.T, body string, after bool) callFailure {
	t.Helper()
	var p problem.Problem
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return callFailure{text: p.Detail, reason: p.Reason, notStarted: p.Metadata[call.NotStarted] == "true",
		again: after || p.RetryAfter > 0}
}

func failureByConnect(err error) (out callFailure) {
	var failed *connect.Error
	if !errors.As(err, &failed) {
		return callFailure{text: "no error of Connect"}
	}
	out.text = failed.Message()
	for _, d := range failed.Details() {
		m, err := d.Value()
		if err != nil {
			continue
		}
		switch m := m.(type) {
		case *errdetails.ErrorInfo:
			out.reason, out.notStarted = m.GetReason(), m.GetMetadata()[call.NotStarted] == "true"
		case *errdetails.RetryInfo:
			out.again = true
		}
	}
	return out
}

// breakdown is a way in which a call fails.
type breakdown struct {
	backends     func(t *testing.T) []string
	fleet        func(*gatewaytest.Fleet)
	reason       string
	notStarted   bool
	partlyCached bool // unknown for a translated call
}

// onlyScripted returns the only backend of a fleet.
func onlyScripted(script gatewaytest.Script) func(t *testing.T) []string {
	return func(t *testing.T) []string { return []string{gatewaytest.Scripted(t, script)} }
}

// lasting sets the deadline of the fleet's calls.
func lasting(d time.Duration) func(*gatewaytest.Fleet) {
	return func(f *gatewaytest.Fleet) { f.Deadlines = router.Deadlines{Default: d, Stream: d} }
}

// begun returns a response that ends after a message, without a status.
func begun(c *rawhttp2.Conn, stream uint32) []rawhttp2.Frame {
	msg, _ := proto.Marshal(&docpb.InvokeResponse{ResultJson: []byte(`{"a":1}`)})
	return []rawhttp2.Frame{
		rawhttp2.Headers(stream, false, c.Block(":status", "200", "content-type", "application/grpc")),
		rawhttp2.Data(stream, false, rawhttp2.Message(msg)),
	}
}

var breakdowns = map[string]breakdown{
	"the backend refuses connections": {
		func(t *testing.T) []string { return []string{check.ClosedPort(t)} }, nil, "BACKEND_UNREACHABLE", true, false},
	"the backend closes connections": {
		func(t *testing.T) []string {
			return []string{gatewaytest.Unreachable(t)}
		}, nil, "BACKEND_UNREACHABLE", true, false},
	"GOAWAY before the call": {onlyScripted(func(c *rawhttp2.Conn, _ uint32) bool {
		return c.Write(rawhttp2.GoAway(0, 0)) == nil
	}), nil, "BACKEND_UNREACHABLE", true, false},
	"the call is refused": {onlyScripted(func(c *rawhttp2.Conn, stream uint32) bool {
		return c.Write(rawhttp2.Reset(stream, 7)) == nil
	}), nil, "BACKEND_UNREACHABLE", true, false},
	"the time is over before there is a connection": {func(t *testing.T) []string {
		return []string{gatewaytest.Deaf(t)}
	}, lasting(50 * time.Millisecond), "DEADLINE_EXCEEDED", true, true},
	"the connection ends without an answer": {onlyScripted(func(*rawhttp2.Conn, uint32) bool { return false }), nil,
		"UPSTREAM_LOST", false, false},
	"the connection ends in the answer": {onlyScripted(func(c *rawhttp2.Conn, stream uint32) bool {
		_ = c.Write(begun(c, stream)...)
		return false
	}), nil, "UPSTREAM_LOST", false, false},
	"the call is reset": {onlyScripted(func(c *rawhttp2.Conn, stream uint32) bool {
		return c.Write(rawhttp2.Reset(stream, 2)) == nil
	}), nil, "UPSTREAM_RESET", false, false},
	"the call is reset in the answer": {onlyScripted(func(c *rawhttp2.Conn, stream uint32) bool {
		return c.Write(append(begun(c, stream), rawhttp2.Reset(stream, rawhttp2.Cancel))...) == nil
	}), nil, "UPSTREAM_RESET", false, false},
	"the answer breaks HTTP/2": {onlyScripted(func(c *rawhttp2.Conn, stream uint32) bool {
		return c.Write(rawhttp2.Data(stream, false, []byte("no headers"))) == nil
	}), nil, "UPSTREAM_PROTOCOL", false, false},
	"an attempt is lost, and there is no other backend": {func(t *testing.T) []string {
		return []string{gatewaytest.Scripted(t, func(*rawhttp2.Conn, uint32) bool {
			return false
		}), check.ClosedPort(t)}
	}, func(f *gatewaytest.Fleet) { f.Idempotent = []string{"*"} }, "UPSTREAM_LOST", false, false},
}

// TestErrorsThatClientsActOn: calls are broken on real sockets, in every protocol. The error of a call that
// reached no backend says so; that of a call that may have run contains nothing that makes a client retry it.
func TestErrorsThatClientsActOn(t *testing.T) {
	t.Parallel()
	for name, b := range breakdowns {
		for _, caller := range eachCaller {
			t.Run(name+"/"+caller.name, func(t *testing.T) {
				t.Parallel()
				fleet := gatewaytest.Fleet{Capability: "caps", Dialect: call.Doc, Unprobed: true}
				if b.fleet != nil {
					b.fleet(&fleet)
				}
				fleet.Backends = b.backends(t)
				got := caller.failed(t, gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{fleet}}))
				partlyCached := b.partlyCached && caller.name == translated
				got.notStarted = got.notStarted || partlyCached
				b.check(t, got, caller.grpc && !partlyCached)
			})
		}
	}
}

// TestTimeIsOverAtTheBackend: a call whose deadline expires at its backend may have run.
func TestTimeIsOverAtTheBackend(t *testing.T) {
	t.Parallel()
	for _, caller := range eachCaller {
		t.Run(caller.name, func(t *testing.T) {
			t.Parallel()
			for limit := 50 * time.Millisecond; ; limit *= 2 { // until it suffices to reach the backend
				var came atomic.Bool
				fleet := gatewaytest.Fleet{Capability: "caps", Dialect: call.Doc, Unprobed: true,
					Backends: []string{gatewaytest.Scripted(t, func(*rawhttp2.Conn, uint32) bool {
						came.Store(true)
						return true
					})}}
				lasting(limit)(&fleet)
				got := caller.failed(t, gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{fleet}}))
				if came.Load() || limit > check.Patience {
					b := breakdown{reason: "DEADLINE_EXCEEDED"}
					b.check(t, got, caller.grpc)
					return
				}
			}
		})
	}
}

func (b *breakdown) check(t *testing.T, got callFailure, pushes bool) {
	t.Helper()
	if got.reason != b.reason || got.notStarted != b.notStarted || !b.notStarted && got.again {
		t.Errorf("got %+v", got)
	}
	if pushes && (got.pushback == "-1") == b.notStarted {
		t.Errorf("pushback %q", got.pushback)
	}
	if b.notStarted {
		return
	}
	if word := gateway.RetryWord(got.text); word != "" || got.text == "" {
		t.Errorf("%q has the word %q", got.text, word)
	}
}

// TestStoppingGatewayReportsWhatMayHaveRun: calls that a stopping gateway cuts off may have run.
func TestStoppingGatewayReportsWhatMayHaveRun(t *testing.T) {
	t.Parallel()
	for _, caller := range eachCaller {
		t.Run(caller.name, func(t *testing.T) {
			t.Parallel()
			came := make(chan struct{})
			g := gatewaytest.Start(t, gatewaytest.Options{
				Drain: &gateway.Drain{Timeout: time.Millisecond},
				Fleets: []gatewaytest.Fleet{{Capability: "caps", Dialect: call.Doc, Unprobed: true,
					Backends: []string{gatewaytest.Scripted(t, func(*rawhttp2.Conn, uint32) bool {
						close(came)
						return true
					})}}},
			})
			ended := make(chan callFailure, 1)
			go func() {
				defer close(ended) // also if the caller fails the test
				ended <- caller.failed(t, g)
			}()
			check.Received(t, came, "the call")
			g.Drain()
			b := breakdown{reason: "DRAINING"}
			b.check(t, check.Received(t, ended, "the end of the call"), caller.grpc)
		})
	}
}

// TestRefusedCallsDidNotStart: in every protocol, the error of a call that was rejected before a backend was
// picked says that it did not start.
func TestRefusedCallsDidNotStart(t *testing.T) {
	t.Parallel()
	for _, caller := range eachCaller {
		t.Run(caller.name, func(t *testing.T) {
			t.Parallel()
			g := gatewaytest.Start(t, gatewaytest.Options{Policy: blockAll(),
				Fleets: []gatewaytest.Fleet{{Capability: "caps", Dialect: call.Doc, Unprobed: true,
					Backends: []string{check.ClosedPort(t)}}}})
			b := breakdown{reason: "TOOL_BLOCKED", notStarted: true}
			b.check(t, caller.failed(t, g), caller.grpc)
		})
	}
}

// checkProgress checks what a gRPC error says about the call: whether it did not start, and that nothing invites
// a retry if it may have run.
func checkProgress(t *testing.T, err error, notStarted bool) {
	t.Helper()
	b := breakdown{reason: errorInfo(err).GetReason(), notStarted: notStarted}
	b.check(t, failureBy(err, nil), false)
}

// TestARepeatInFlightMayHaveRun: a repeat whose deadline expires while the first call with its key is running
// may have run.
func TestARepeatInFlightMayHaveRun(t *testing.T) {
	t.Parallel()
	c := gatewaytest.NewCapability("a")
	g := keyedGateway(t, gatewaytest.Answers(t, gatewaytest.OpenStore(t, "embedded"), idempotency.Options{}),
		c.Serve(t, call.Doc).Addr)
	first := make(chan error, 1)
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	go func() {
		_, err := client.Invoke(metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "k"),
			&docpb.InvokeRequest{CapabilityId: "weather", ToolName: gatewaytest.Block, ArgsJson: []byte(`{}`)})
		first <- err
	}()
	check.Received(t, c.Blocked(), "the tool to run")
	resp, body := post(t, g.HTTP1(t), g, "weather", `{"tool_name":"block","args":{}}`, "Idempotency-Key", "k",
		"Request-Timeout", "0.05")
	b := breakdown{reason: "DEADLINE_EXCEEDED"}
	b.check(t, failureByProblem(t, body, resp.Header.Get("Retry-After") != ""), false)
	c.Release()
	if err := check.Received(t, first, "the end of the first call"); err != nil || len(c.Seen()) != 1 {
		t.Errorf("%v, %d calls", err, len(c.Seen()))
	}
}
