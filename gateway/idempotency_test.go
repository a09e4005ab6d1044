package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/catalog"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// keyedCall makes a call with an idempotency key over gRPC.
func keyedCall(t *testing.T, c gatewaytest.Client, key, tool, args string) (text string, replayed bool, err error) {
	t.Helper()
	var header, trailer metadata.MD
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-capability-id", "weather", "idempotency-key", key)
	resp, err := c.Invoke(ctx, &docpb.InvokeRequest{ToolName: tool, ArgsJson: []byte(args)}, grpc.Header(&header),
		grpc.Trailer(&trailer))
	replayed = len(trailer.Get("idempotency-replayed")) > 0
	if err == nil && replayed != (len(header.Get("idempotency-replayed")) > 0) {
		t.Errorf("replayed is in the trailer, %v, and not in the header: %v", trailer, header)
	}
	return string(resp.GetResultJson()) + resp.GetError(), replayed, err
}

// keyedPost makes a call with an idempotency key over JSON.
func keyedPost(t *testing.T, g *gatewaytest.Gateway, key, body string) (status int, replayed bool, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.URL("/v1/capabilities/weather/invoke"),
		strings.NewReader(body))
	check.Must(t, err)
	req.Header.Set("Idempotency-Key", key)
	req.Header.Set("X-Request-Id", "same") // quoted in problems
	resp, err := g.HTTP1(t).Do(req)
	check.Must(t, err)
	defer resp.Body.Close()
	all, err := io.ReadAll(resp.Body)
	check.Must(t, err)
	return resp.StatusCode, resp.Header.Get("Idempotency-Replayed") == "true", string(all)
}

// keyedGateway serves weather and stores results of calls.
func keyedGateway(t *testing.T, k *idempotency.Service, backends ...string) *gatewaytest.Gateway {
	t.Helper()
	return gatewaytest.Start(t, gatewaytest.Options{Answers: k,
		Fleets: []gatewaytest.Fleet{{Capability: "weather", Backends: backends, Keyed: true},
			{Capability: "plain", Backends: backends}}})
}

// TestARepeatGetsTheFirstAnswer: a repeat gets the stored result, in every pair of dialects and for every
// outcome of the tool.
func TestARepeatGetsTheFirstAnswer(t *testing.T) {
	t.Parallel()
	for _, from := range []call.Dialect{call.Doc, call.Live, call.Legacy} {
		for _, to := range []call.Dialect{call.Doc, call.Live, call.Legacy} {
			t.Run(from.String()+" to "+to.String(), func(t *testing.T) {
				t.Parallel()
				c := gatewaytest.NewCapability("a")
				g := keyedGateway(t, gatewaytest.Answers(t, gatewaytest.OpenStore(t, "embedded"),
					idempotency.Options{}),
					c.Serve(t, to).Addr)
				client := gatewaytest.NewClient(g.Conn(t), from)
				for i, tool := range []string{gatewaytest.Echo, gatewaytest.Fail, gatewaytest.Break, "none"} {
					key := fmt.Sprint("key ", i)
					want, replayed, wantErr := keyedCall(t, client, key, tool, `{"a":1}`)
					if replayed {
						t.Errorf("%s: the first call was answered as a repeat", tool)
					}
					got, replayed, err := keyedCall(t, client, key, tool, `{"a":1}`)
					if !replayed || got != want || status.Code(err) != status.Code(wantErr) ||
						status.Convert(err).Message() != status.Convert(wantErr).Message() ||
						errorInfo(err).GetReason() != errorInfo(wantErr).GetReason() {
						t.Errorf("%s: the first got %q, %v; the repeat %q, %v, %v", tool, want, wantErr, got, err,
							replayed)
					}
					if _, _, err := keyedCall(t, client, key, tool,
						`{"a":2}`); status.Code(err) != codes.InvalidArgument ||
						errorInfo(err).GetReason() != "IDEMPOTENCY_KEY_REUSED" {
						t.Errorf("%s: with other arguments: %v", tool, err)
					}
					if n := len(c.Seen()); n != i+1 {
						t.Fatalf("%s: the backend got %d calls, want %d", tool, n, i+1)
					}
					if md := c.Seen()[i].Metadata; len(md.Get("idempotency-key")) > 0 ||
						len(md.Get("x-capgate-ticket")) > 0 {
						t.Errorf("the backend sees %v", md)
					}
				}
			})
		}
	}
}

// TestRepeatAfterAFailedTranslation: the tool has run, but its result cannot be translated to the caller's
// dialect. A repeat does not run the tool again, and its error says that the outcome is unknown.
func TestRepeatAfterAFailedTranslation(t *testing.T) {
	t.Parallel()
	for _, to := range []call.Dialect{call.Doc, call.Live} {
		t.Run(to.String(), func(t *testing.T) {
			t.Parallel()
			c := gatewaytest.NewCapability("a")
			c.Lists = func() ([]byte, string, error) { return []byte("[\xff]"), "", nil }
			g := keyedGateway(t, gatewaytest.Answers(t, gatewaytest.OpenStore(t, "embedded"), idempotency.Options{}),
				c.Serve(t, to).Addr)
			client := gatewaytest.NewClient(g.Conn(t), call.Legacy)
			_, _, err := keyedCall(t, client, "one", gatewaytest.List, `{}`)
			wants(t, err, codes.DataLoss, "DIALECT_TEXT_ONLY")
			g.Log.Calls(t, 1) // its log line may come after the next response
			for range 2 {
				_, replayed, err := keyedCall(t, client, "one", gatewaytest.List, `{}`)
				wants(t, err, codes.Aborted, "IDEMPOTENCY_OUTCOME_UNKNOWN")
				if checkProgress(t, err, false); replayed {
					t.Error("a repeat got a result")
				}
			}
			if n := len(c.Seen()); n != 1 {
				t.Errorf("the backend got %d calls", n)
			}
			if lines := g.Log.Calls(t, 3); lines[0].Text("reason") != "DIALECT_TEXT_ONLY" ||
				lines[2].Text("reason") != "IDEMPOTENCY_OUTCOME_UNKNOWN" {
				t.Errorf("logged %v", lines)
			}
		})
	}
}

func TestRepeatsByJSON(t *testing.T) {
	t.Parallel()
	c := gatewaytest.NewCapability("a")
	g := keyedGateway(t, gatewaytest.Answers(t, gatewaytest.OpenStore(t, "embedded"), idempotency.Options{}),
		c.Serve(t, call.Live).Addr)
	ended := 0
	post := func(key, body string) (status int, replayed bool, text string) {
		status, replayed, text = keyedPost(t, g, key, body)
		ended++
		g.Log.Calls(t, ended) // log lines are written after responses
		return status, replayed, text
	}
	const echo = `{"tool_name":"echo","args":{"a":1},"config":{"secret":"one"}}`
	code, replayed, first := post("k", echo)
	if code != 200 || replayed {
		t.Fatalf("got %d %s, %v", code, first, replayed)
	}
	if code, replayed, text := post("k", strings.Replace(echo, "one", "two", 1)); code != 200 || !replayed ||
		text != first {
		t.Errorf("a repeat: %d %s, %v", code, text, replayed)
	}
	if code, _, text := post("k", `{"tool_name":"echo","args":{"a":2}}`); code != 422 ||
		!strings.Contains(text, "IDEMPOTENCY_KEY_REUSED") {
		t.Errorf("with other arguments: %d %s", code, text)
	}
	code, _, first = post("broken", `{"tool_name":"break"}`)
	if again, replayed, text := post("broken", `{"tool_name":"break"}`); again != code || !replayed ||
		text != first {
		t.Errorf("an error: %d %s, then %d %s, %v", code, first, again, text, replayed)
	}
	for _, bad := range []string{"", strings.Repeat("a", 256)} {
		if code, _, text := post(bad, echo); code != 400 || !strings.Contains(text, "IDEMPOTENCY_KEY_INVALID") {
			t.Errorf("%q: %d %s", bad, code, text)
		}
	}
	if n := len(c.Seen()); n != 2 {
		t.Errorf("the backend got %d calls", n)
	}
	lines := g.Log.Calls(t, ended)
	for i, want := range []bool{false, true, false, false, true} {
		if got := lines[i]["replayed"] == true; got != want || want && (lines[i]["backend"] != nil ||
			lines[i].Text("code") == "") || i == 2 && lines[i].Text("reason") != "IDEMPOTENCY_KEY_REUSED" {
			t.Errorf("line %d: %v", i, lines[i])
		}
	}
}

// TestKeysAreForwardedToBackends: a fleet that does not accept keys over gRPC forwards them to its backends;
// streams have no keys.
func TestKeysAreForwardedToBackends(t *testing.T) {
	t.Parallel()
	c := gatewaytest.NewCapability("a")
	g := keyedGateway(t, gatewaytest.Answers(t, gatewaytest.OpenStore(t, "embedded"), idempotency.Options{}),
		c.Serve(t, call.Doc).Addr)
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-capability-id", "plain", "idempotency-key", "k",
		"x-capgate-idempotency-key", "k")
	for range 2 {
		if _, err := client.Invoke(ctx, &docpb.InvokeRequest{ToolName: gatewaytest.Echo}); err != nil {
			t.Fatal(err)
		}
	}
	seen := c.Seen()
	if len(seen) != 2 || len(seen[0].Metadata.Get("idempotency-key")) != 1 ||
		len(seen[0].Metadata.Get("x-capgate-idempotency-key")) != 0 {
		t.Errorf("the backend saw %v", seen)
	}
	ctx = metadata.AppendToOutgoingContext(t.Context(), "x-capability-id", "weather", "idempotency-key", "k")
	if _, err := client.StreamInvoke(ctx,
		&docpb.InvokeRequest{ToolName: gatewaytest.Echo}); status.Code(err) != codes.Unimplemented ||
		errorInfo(err).GetReason() != "IDEMPOTENCY_UNSUPPORTED" {
		t.Errorf("a stream: %v", err)
	}
	twice := metadata.AppendToOutgoingContext(ctx, "idempotency-key", "other")
	if _, err := client.Invoke(twice,
		&docpb.InvokeRequest{ToolName: gatewaytest.Echo}); errorInfo(err).GetReason() != "IDEMPOTENCY_KEY_INVALID" {
		t.Errorf("two keys: %v", err)
	}
	off := keyedGateway(t, nil, c.Serve(t, call.Doc).Addr)
	if _, _, err := keyedCall(t, gatewaytest.NewClient(off.Conn(t), call.Doc), "k", gatewaytest.Echo,
		"{}"); status.Code(err) != codes.FailedPrecondition || errorInfo(err).GetReason() != "IDEMPOTENCY_OFF" {
		t.Errorf("without a store of results: %v", err)
	}
}

// TestRepeatsAtThreeReplicas: of a hundred calls with one key at the same time, over gRPC and JSON, the tool
// runs once.
func TestRepeatsAtThreeReplicas(t *testing.T) {
	t.Parallel()
	redis := gatewaytest.StartRedis(t)
	c := gatewaytest.NewCapability("a")
	addr := c.Serve(t, call.Doc).Addr
	var all []*gatewaytest.Gateway
	var clients []gatewaytest.Client
	for range 3 {
		g := keyedGateway(t, gatewaytest.Answers(t, redis.Open(t), idempotency.Options{}), addr)
		all, clients = append(all, g), append(clients, gatewaytest.NewClient(g.Conn(t), call.Doc))
	}
	var firsts int
	var mu sync.Mutex
	var callers sync.WaitGroup
	for i := range 100 {
		callers.Go(func() {
			var replayed, ok bool
			if i%2 == 0 {
				text, again, err := keyedCall(t, clients[i%3], "k", gatewaytest.Block, `{"a":1}`)
				replayed, ok = again, err == nil && text == `"released"`
			} else {
				code, again, text := keyedPost(t, all[i%3], "k", `{"tool_name":"block","args":{"a":1}}`)
				replayed, ok = again, code == 200 && strings.Contains(text, "released")
			}
			mu.Lock()
			defer mu.Unlock()
			if !ok {
				t.Errorf("call %d failed", i)
			}
			if !replayed {
				firsts++
			}
		})
	}
	check.Received(t, c.Blocked(), "the tool to run")
	c.Release()
	check.Ended(t, &callers, "the end of the calls")
	if n := len(c.Seen()); n != 1 || firsts != 1 {
		t.Errorf("the tool ran %d times; %d calls were the first", n, firsts)
	}
}

// TestACallerComesBack: a call whose caller left continues, the repeat gets its result, and the log has one
// call.
func TestACallerComesBack(t *testing.T) {
	t.Parallel()
	c := gatewaytest.NewCapability("a")
	g := keyedGateway(t, gatewaytest.Answers(t, gatewaytest.OpenStore(t, "embedded"), idempotency.Options{}),
		c.Serve(t, call.Doc).Addr)
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	ctx, leave := context.WithCancel(metadata.AppendToOutgoingContext(t.Context(), "x-capability-id", "weather",
		"idempotency-key", "k"))
	left := make(chan error)
	go func() {
		_, err := client.Invoke(ctx, &docpb.InvokeRequest{ToolName: gatewaytest.Block})
		left <- err
	}()
	check.Received(t, c.Blocked(), "the tool to run")
	leave()
	if err := check.Received(t, left, "the end of the call of who leaves"); status.Code(err) != codes.Canceled {
		t.Errorf("the caller that left got %v", err)
	}
	c.Release()
	text, replayed, err := keyedCall(t, client, "k", gatewaytest.Block, "")
	if err != nil || !replayed || text != `"released"` || len(c.Seen()) != 1 {
		t.Errorf("the repeat got %q, %v, %v; the tool ran %d times", text, replayed, err, len(c.Seen()))
	}
	for _, line := range g.Log.Calls(t, 2) {
		if line.Text("code") != "OK" {
			t.Errorf("in the log: %v", line)
		}
	}
}

// TestACallThatDoesNotStartReleasesItsKey: a call that was not sent releases its key; for one that may have run,
// the outcome is unknown.
func TestACallThatDoesNotStartReleasesItsKey(t *testing.T) {
	t.Parallel()
	k := gatewaytest.Answers(t, gatewaytest.OpenStore(t, "embedded"), idempotency.Options{})
	c := gatewaytest.NewCapability("a")
	dead := gatewaytest.Start(t, gatewaytest.Options{Answers: k,
		Fleets: []gatewaytest.Fleet{{Capability: "weather", Backends: []string{gatewaytest.Unreachable(t)}, Keyed: true,
			Unprobed: true}}})
	for range 2 {
		if _, replayed, err := keyedCall(t, gatewaytest.NewClient(dead.Conn(t), call.Doc), "k", gatewaytest.Block,
			"{}"); status.Code(err) != codes.Unavailable || replayed {
			t.Errorf("no backend: %v, %v", err, replayed)
		}
	}
	backend := c.Serve(t, call.Doc)
	g := keyedGateway(t, k, backend.Addr)
	client := gatewaytest.NewClient(g.Conn(t), call.Doc)
	lost := make(chan error)
	go func() {
		_, _, err := keyedCall(t, client, "k", gatewaytest.Block, "{}")
		lost <- err
	}()
	check.Received(t, c.Blocked(), "the tool to run")
	backend.Stop()
	if err := check.Received(t, lost, "the end of the lost call"); status.Code(err) != codes.Unavailable {
		t.Errorf("the first got %v", err)
	}
	if _, _, err := keyedCall(t, client, "k", gatewaytest.Block, "{}"); status.Code(err) != codes.Aborted ||
		errorInfo(err).GetReason() != "IDEMPOTENCY_OUTCOME_UNKNOWN" {
		t.Errorf("the repeat got %v", err)
	}
}

// TestARepeatOfAnApprovedCall: a repeat gets the result although its approval is used up. A call that was not
// made before does not run with that approval.
func TestARepeatOfAnApprovedCall(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	c := gatewaytest.NewCapability("a")
	tools := catalog.New(catalog.Options{})
	tools.Replace(map[string]catalog.Declaration{"caps": {Policy: call.Ask}})
	g := gatewaytest.Start(t, gatewaytest.Options{
		Answers: gatewaytest.Answers(t, gatewaytest.OpenStore(t, "embedded"), idempotency.Options{}), Approver: d,
		Policy: policy.Options{Source: tools},
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{c.Serve(t, call.Doc).Addr}, Keyed: true}},
	})
	client, req := gatewaytest.NewClient(g.Conn(t), call.Doc), request(gatewaytest.Echo, `{}`)
	_, err := client.Invoke(with(t.Context(), "idempotency-key", "k"), req)
	id := wants(t, err, codes.FailedPrecondition, "APPROVAL_REQUIRED").GetMetadata()["approval"]
	if _, err := d.Approve(t.Context(), "default", id, approvals.Answer{By: "eve"}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := client.Invoke(with(t.Context(), "idempotency-key", "k", "x-approval-id", id), req); err != nil {
			t.Error(err)
		}
	}
	_, err = client.Invoke(with(t.Context(), "idempotency-key", "other", "x-approval-id", id), req)
	wants(t, err, codes.PermissionDenied, "APPROVAL_USED")
	checkProgress(t, err, false)
	if n := len(c.Seen()); n != 1 {
		t.Errorf("the backend got %d calls", n)
	}
}
