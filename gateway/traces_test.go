package gateway_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/testkit/oteltest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/catalog"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	"github.com/capgate/capgate/router"
)

const code = "rpc.response.status_code"

// TestACallIsTraced: the spans of the caller, the gateway, the attempt and the backend form a chain.
func TestACallIsTraced(t *testing.T) {
	t.Parallel()
	f := tracedFront(t, 0, call.Live, nil)
	ctx := with(t.Context(), "traceparent", sampled, "tracestate", aState, "baggage", aBaggage, "x-agent-id", "planner")
	if _, err := f.client.StreamInvoke(ctx, request(gatewaytest.Echo, `{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	server, clients := f.pair(t, 1)
	client := clients[0]
	if server.Trace != aTrace || server.Parent != aSpan || server.GetTraceState() != aState {
		t.Errorf("the call is %s, a child of %s with %q", server.Trace, server.Parent, server.GetTraceState())
	}
	parent, state, baggage := f.seen(t)
	if want := "00-" + aTrace + "-" + client.ID + "-01"; parent != want || state != aState || baggage != aBaggage {
		t.Errorf("the backend got %q, %q and %q; want %q, and the others unchanged", parent, state, baggage, want)
	}
	if server.GetName() != "selu.capability.Capability/StreamInvoke" ||
		client.GetName() != "selu.capability.v1.Capability/StreamInvoke" {
		t.Errorf("the spans are %s and %s", server.GetName(), client.GetName())
	}
	checkAttributes(t, server, map[string]string{
		"rpc.system.name": "grpc", "rpc.method": "selu.capability.Capability/StreamInvoke", code: "OK",
		"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "echo", "gen_ai.agent.id": "planner",
		"error.type": "", "capgate.tenant": "default", "capgate.capability": "caps", "capgate.outcome": "success",
		"capgate.policy": "allow",
	})
	host, port, _ := strings.Cut(f.backend.Addr, ":")
	checkAttributes(t, client, map[string]string{
		"rpc.system.name": "grpc", "rpc.method": "selu.capability.v1.Capability/StreamInvoke", code: "OK",
		"server.address": host, "server.port": port, "capgate.try": "1", "gen_ai.tool.name": "",
	})
	if got := client.Events(); !slices.Equal(got, []string{"first_byte"}) {
		t.Errorf("events %v", got)
	}
	if server.Resource["service.name"] != "capgate" || server.Resource["service.version"] != "v1" ||
		server.Resource["service.instance.id"] != "gw-1" {
		t.Errorf("the process is %v", server.Resource)
	}
	if line := f.gateway.Log.Calls(t, 1)[0]; line.Text("trace_id") != aTrace {
		t.Errorf("logged %v", line)
	}
}

// TestTheCallerDecides: the caller decides whether its call is sampled; invalid contexts are dropped.
func TestTheCallerDecides(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		sample        float64
		parent, state string
		spans         int
		child         bool // of the parent
		passes        bool // parent and state reach the backend unchanged
		log           bool // has the trace's id
	}{
		"not sampled":         {1, ignored, aState, 0, false, true, true},
		"sampled":             {0, sampled, "", 2, true, false, true},
		"a later version":     {0, "cc-" + aTrace + "-" + aSpan + "-01-what-will-be", "", 2, true, false, true},
		"random":              {0, "00-" + aTrace + "-" + aSpan + "-03", "", 2, true, false, true},
		"an unknown flag":     {1, "00-" + aTrace + "-" + aSpan + "-08", "", 0, false, true, true},
		"none, and chance":    {1, "", "", 2, false, false, true},
		"none, and no chance": {0, "", "", 0, false, false, false},
		"upper case":          {0, strings.ToUpper(sampled), aState, 0, false, false, false},
		"no trace": {0, "00-" + strings.Repeat("0", 32) + "-" + aSpan + "-01", aState, 0, false, false,
			false},
		"no span": {1, "00-" + aTrace + "-" + strings.Repeat("0", 16) + "-01", aState, 2, false, false,
			true},
		"the wrong version":    {0, "ff-" + aTrace + "-" + aSpan + "-01", aState, 0, false, false, false},
		"more than version 00": {1, sampled + "-more", aState, 2, false, false, true},
		"a later without -":    {0, "cc-" + aTrace + "-" + aSpan + "-01.more", aState, 0, false, false, false},
		"too short":            {0, sampled[:54], aState, 0, false, false, false},
		"no hex":               {0, "00-" + aTrace + "-" + aSpan + "-0g", aState, 0, false, false, false},
		"wrong separators":     {0, strings.ReplaceAll(sampled, "-", "_"), aState, 0, false, false, false},
		"a state alone":        {0, "", aState, 0, false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := tracedFront(t, test.sample, call.Doc, nil)
			ctx := with(t.Context(), "baggage", aBaggage)
			if test.parent != "" {
				ctx = with(ctx, "traceparent", test.parent)
			}
			if test.state != "" {
				ctx = with(ctx, "tracestate", test.state)
			}
			if _, err := f.client.Invoke(ctx, request(gatewaytest.Echo, `{}`)); err != nil {
				t.Fatal(err)
			}
			line := f.gateway.Log.Calls(t, 1)[0]
			parent, state, baggage := f.seen(t)
			switch {
			case test.passes:
				if parent != test.parent || state != test.state {
					t.Errorf("the backend got %q and %q", parent, state)
				}
			case test.spans == 0 && parent != "", state != "":
				t.Errorf("the backend got %q and %q", parent, state)
			}
			if baggage != aBaggage {
				t.Errorf("the backend got the baggage %q", baggage)
			}
			if (line.Text("trace_id") != "") != test.log {
				t.Errorf("logged %v", line)
			}
			if test.spans == 0 {
				f.gateway.Stop(t) // everything has ended
				if all := f.collector.Spans(t, 0); len(all) > 0 {
					t.Errorf("%d spans", len(all))
				}
				return
			}
			server, clients := f.pair(t, 1)
			if (server.Parent == aSpan && server.Trace == aTrace) != test.child || !test.child && server.Parent != "" {
				t.Errorf("the call is a child of %q in %s", server.Parent, server.Trace)
			}
			if !strings.HasPrefix(parent, "00-"+server.Trace+"-"+clients[0].ID) ||
				line.Text("trace_id") != server.Trace {
				t.Errorf("the backend got %q, and the log %v", parent, line)
			}
		})
	}
}

// TestEveryDoorIsTraced: JSON and translated calls pass the gateway twice and have one server span.
func TestEveryDoorIsTraced(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		make  func(f *traced) error
		tries int
		of    map[string]string
	}{
		"JSON": {func(f *traced) error {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
				f.gateway.URL("/v1/capabilities/caps/invoke"), strings.NewReader(`{"tool_name":"echo","args":{}}`))
			if err != nil {
				return err
			}
			req.Header.Set("Traceparent", sampled)
			req.Header.Set("Tracestate", aState)
			resp, err := f.gateway.HTTP1(t).Do(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		}, 1, map[string]string{"rpc.method": "selu.capability.Capability/Invoke", "gen_ai.tool.name": "echo"}},
		"a translated upload": {func(f *traced) error {
			_, err := f.client.Upload(with(t.Context(), "traceparent", sampled, "tracestate", aState),
				gatewaytest.File{Name: "secret.txt", Data: []byte("x")})
			return err
		}, 1, map[string]string{"rpc.method": "selu.capability.Capability/UploadInputArtifact",
			"gen_ai.operation.name": ""}},
		"a compressed call": {func(f *traced) error {
			_, err := f.client.Invoke(with(t.Context(), "traceparent", sampled, "tracestate", aState),
				request(gatewaytest.Echo, `{}`), grpc.UseCompressor(gzip.Name))
			return err
		}, 1, map[string]string{"rpc.method": "selu.capability.Capability/Invoke"}},
		"refused": {func(f *traced) error {
			_, err := f.client.Invoke(with(t.Context(), "traceparent", sampled),
				&docpb.InvokeRequest{CapabilityId: "none", ToolName: "echo"})
			if err == nil {
				t.Error("the call is not rejected")
			}
			return nil
		}, 0, map[string]string{code: "INVALID_ARGUMENT", "capgate.reason": "ROUTING_KEY_CONFLICT", "error.type": ""}},
		"an unknown method": {func(f *traced) error {
			err := f.gateway.Conn(t).Invoke(with(t.Context(), "traceparent", sampled), "/a.Service/Nothing",
				&emptypb.Empty{}, &emptypb.Empty{})
			if status.Code(err) != codes.Unimplemented {
				t.Errorf("the call ends with %v", err)
			}
			return nil
		}, 0, map[string]string{"rpc.method": "_OTHER", "rpc.method_original": "a.Service/Nothing",
			code: "UNIMPLEMENTED", "error.type": "UNIMPLEMENTED"}},
		"a tool that fails": {func(f *traced) error {
			_, err := f.client.Invoke(with(t.Context(), "traceparent", sampled), request(gatewaytest.Fail, `{}`))
			return err
		}, 1, map[string]string{code: "OK", "capgate.outcome": "tool_error", "error.type": "tool_error"}},
		"a backend that fails": {func(f *traced) error {
			_, err := f.client.Invoke(with(t.Context(), "traceparent", sampled), request(gatewaytest.Break, `{}`))
			if err == nil {
				t.Error("the call does not fail")
			}
			return nil
		}, 1, map[string]string{code: "DATA_LOSS", "error.type": "DATA_LOSS"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := tracedFront(t, 0, call.Live, nil)
			check.Must(t, test.make(f))
			f.gateway.Log.Calls(t, 1)
			server, clients := f.pair(t, test.tries)
			if server.Parent != aSpan {
				t.Errorf("the call is a child of %q", server.Parent)
			}
			checkAttributes(t, server, test.of)
			failed := test.of["error.type"] != ""
			if (server.GetStatus().GetCode() == otlp.Status_STATUS_CODE_ERROR) != failed {
				t.Errorf("status %v", server.GetStatus())
			}
			if test.tries > 0 {
				if parent, _, _ := f.seen(t); parent != "00-"+aTrace+"-"+clients[0].ID+"-01" {
					t.Errorf("the backend got %q", parent)
				}
			}
			line := f.gateway.Log.Calls(t, 1)
			if len(line) != 1 || line[0].Text("trace_id") != aTrace {
				t.Errorf("logged %v", line)
			}
		})
	}
}

// TestAttemptsAreTraced: each attempt has a span, whose context its backend gets.
func TestAttemptsAreTraced(t *testing.T) {
	t.Parallel()
	f := tracedFront(t, 1, call.Doc, func(o *gatewaytest.Options) {
		o.Fleets[0].Backends = append(o.Fleets[0].Backends, check.ClosedPort(t))
		o.Fleets[0].Unprobed, o.Fleets[0].Dialect = true, call.Doc
	})
	for n := 1; ; n++ {
		if _, err := f.client.Invoke(with(t.Context()), request(gatewaytest.Echo, `{}`)); err != nil {
			t.Fatal(err)
		}
		f.gateway.Log.Calls(t, n)
		all := f.collector.Spans(t, 2*n)
		second := slices.IndexFunc(all, func(s *oteltest.Span) bool { return s.Of["capgate.try"] == "2" })
		if second < 0 {
			if n == 50 {
				t.Fatal("no attempt reached the rejecting backend")
			}
			continue
		}
		// The call's server span comes with the second attempt, after the first.
		all = f.collector.Spans(t, 2*n+1)
		first := slices.IndexFunc(all, func(s *oteltest.Span) bool {
			return s.Of["capgate.try"] == "1" &&
				s.Parent == all[second].Parent
		})
		if first < 0 {
			t.Fatal("there was no first attempt")
		}
		checkAttributes(t, all[first], map[string]string{code: "UNAVAILABLE", "error.type": "UNAVAILABLE"})
		checkAttributes(t, all[second], map[string]string{code: "OK", "error.type": ""})
		seen := f.capability.Seen()
		if got := seen[len(seen)-1].Metadata.Get("traceparent"); len(got) != 1 ||
			got[0] != "00-"+all[second].Trace+"-"+all[second].ID+"-01" {
			t.Errorf("the backend got %q", got)
		}
		return
	}
}

// TestApprovalsAreLinked: the call that redeems an approval is linked to the call that created it.
func TestApprovalsAreLinked(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	f := tracedFront(t, 1, call.Doc, func(o *gatewaytest.Options) {
		tools := catalog.New(catalog.Options{})
		tools.Replace(map[string]catalog.Declaration{"caps": {Policy: call.Ask}})
		o.Policy, o.Approver = policy.Options{Source: tools}, d
	})
	req := request(gatewaytest.Echo, `{"a":1}`)
	_, err := f.client.Invoke(with(t.Context()), req)
	id := wants(t, err, codes.FailedPrecondition, "APPROVAL_REQUIRED").GetMetadata()["approval"]
	asked := f.collector.Spans(t, 1)[0]
	if got, want := asked.Events(), []string{"wait decision", "wait approval", "go_on decision"}; !slices.Equal(got,
		want) {
		t.Errorf("events %v, want %v", got, want)
	}
	checkAttributes(t, asked, map[string]string{"capgate.reason": "APPROVAL_REQUIRED", "capgate.policy": "ask"})
	if _, err := d.Approve(t.Context(), "default", id, approvals.Answer{By: "eve"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.client.Invoke(with(t.Context(), "x-approval-id", id), req); err != nil {
		t.Fatal(err)
	}
	used := f.collector.Spans(t, 3)[2]
	links := used.GetLinks()
	if len(links) != 1 || string(links[0].GetTraceId()) != string(asked.GetTraceId()) ||
		string(links[0].GetSpanId()) != string(asked.GetSpanId()) ||
		links[0].GetAttributes()[0].GetValue().GetStringValue() != "approval_asked" || used.Trace == asked.Trace {
		t.Errorf("links %v; asked was %s in %s", links, asked.ID, asked.Trace)
	}
	for _, s := range f.collector.Spans(t, 3) {
		if strings.Contains(prototext.Format(s.Span), id) {
			t.Errorf("the approval's id is in %v", s.Span)
		}
	}

	// A call that waits for the answer itself has no link.
	answered := make(chan error, 1)
	go func() {
		a := d.next(t, approvals.EventCreated)
		for a.ID == id {
			a = d.next(t, approvals.EventCreated)
		}
		_, err := d.Approve(context.Background(), "default", a.ID, approvals.Answer{})
		answered <- err
	}()
	if _, err := f.client.Invoke(with(t.Context(), "x-approval-wait", "20"),
		request(gatewaytest.Echo, `{"a":2}`)); err != nil {
		t.Fatal(err)
	}
	check.Must(t, check.Received(t, answered, "the answer"))
	if last := f.collector.Spans(t, 5)[4]; len(last.GetLinks()) != 0 {
		t.Errorf("links %v", last.GetLinks())
	}
}

// TestSpansHoldNoSecrets: spans contain neither request nor response nor credentials.
func TestSpansHoldNoSecrets(t *testing.T) {
	t.Parallel()
	const canary = "c4n4ry"
	ring := newKeyring()
	f := tracedFront(t, 1, call.Doc, func(o *gatewaytest.Options) { o.Authenticator = ring.authenticator() })
	key := ring.credentials["acme"]
	ctx := with(bearer(t.Context(), key), "x-request-id", "r", "authorization-x", canary, "cookie", canary, "baggage",
		"a="+canary)
	for _, tool := range []string{gatewaytest.Echo, gatewaytest.Fail, gatewaytest.Break} {
		req := request(tool, `{"`+canary+`":"`+canary+`"}`)
		req.ConfigJson, req.SessionId, req.ThreadId = []byte(`{"password":"`+canary+`"}`), canary, canary
		_, _ = f.client.Invoke(ctx, req)
	}
	_, _ = f.client.Upload(ctx, gatewaytest.File{Name: canary + ".txt", Data: []byte(canary)})
	for _, s := range f.collector.Spans(t, 8) {
		if text := prototext.Format(s.Span); strings.Contains(text, canary) || strings.Contains(text, key[20:]) {
			t.Errorf("got %s", text)
		}
	}
}

// TestSpansShowWaits: spans show the waits for decompression, for authentication and for a permit.
func TestSpansShowWaits(t *testing.T) {
	t.Parallel()
	by := gatedAuthenticator{asked: make(chan tenant.Credentials, 2), say: make(chan tenant.Identity, 2)}
	for range 2 {
		by.say <- tenant.Identity{Tenant: "acme", Key: "k", Scopes: tenant.Invoke}
	}
	f := tracedFront(t, 1, call.Doc, func(o *gatewaytest.Options) {
		o.Authenticator = by
		o.Fleets[0].Limit = router.Limit{PerBackend: 1, Queue: router.Queue{Size: 1, Wait: time.Hour}}
	})
	ctx := bearer(t.Context(), "cg_any")
	ended := make(chan error, 2)
	go func() { ended <- invokeBlock(f.client)(ctx) }()
	check.Received(t, f.capability.Blocked(), "the first call")
	go func() {
		ended <- second(f.client.Invoke(ctx, request(gatewaytest.Echo, `{}`), grpc.UseCompressor(gzip.Name)))
	}()
	waitWaiting(t, f.gateway, 1)
	f.capability.Release()
	for range 2 {
		check.Must(t, check.Received(t, ended, "the end of the call"))
	}
	all := f.collector.Spans(t, 4)
	i := slices.IndexFunc(all, func(s *oteltest.Span) bool { return s.Of["gen_ai.tool.name"] == "echo" })
	if i < 0 {
		t.Fatal("the call has no span")
	}
	want := []string{"wait identity", "go_on identity", "wait message", "go_on message", "wait place", "go_on place"}
	if got := all[i].Events(); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}
