package gateway_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/manifest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/internal/toolschema"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/catalog"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// TestFieldsToLegacy: every field is translated to Legacy and back as docs/write/dialects.md describes.
func TestFieldsToLegacy(t *testing.T) {
	t.Parallel()
	for _, client := range []call.Dialect{call.Doc, call.Live} {
		for name, test := range map[string]struct {
			change  func(*docpb.InvokeRequest)
			args    string
			context map[string]string
		}{
			"all": {func(*docpb.InvokeRequest) {}, `{"a": 1}`, map[string]string{"session_id": "s", "thread_id": "t",
				"capability_id": "caps", "config_json": ` {"KEY": "k", "n": 1}`}},
			"no arguments": {func(r *docpb.InvokeRequest) { r.ArgsJson = nil }, `{}`,
				map[string]string{"session_id": "s", "thread_id": "t", "capability_id": "caps",
					"config_json": ` {"KEY": "k", "n": 1}`}},
			"nothing more": {func(r *docpb.InvokeRequest) {
				*r = docpb.InvokeRequest{ToolName: r.ToolName,
					ArgsJson: r.ArgsJson}
			}, `{"a": 1}`, map[string]string{}},
			"configured nothing": {func(r *docpb.InvokeRequest) { r.ConfigJson = []byte(" {}\n") }, `{"a": 1}`,
				map[string]string{"session_id": "s", "thread_id": "t", "capability_id": "caps"}},
			"no JSON at all": {func(r *docpb.InvokeRequest) { r.ArgsJson, r.ConfigJson = []byte("ärgs"), []byte("{") },
				"ärgs", map[string]string{"session_id": "s", "thread_id": "t", "capability_id": "caps",
					"config_json": "{"}},
		} {
			t.Run(client.String()+", "+name, func(t *testing.T) {
				t.Parallel()
				f := startFront(t, client, call.Legacy)
				req := &docpb.InvokeRequest{ToolName: gatewaytest.Echo, ArgsJson: []byte(`{"a": 1}`),
					ConfigJson: []byte(` {"KEY": "k", "n": 1}`), SessionId: "s", ThreadId: "t", CapabilityId: "caps"}
				test.change(req)
				resp, err := f.client.Invoke(with(t.Context(), "x-user-id", "ann"), req)
				if err != nil || string(resp.GetResultJson()) != test.args {
					t.Fatalf("got %v, %v", resp, err)
				}
				if seen := f.capability.Seen()[0]; seen.Request.GetToolName() != gatewaytest.Echo ||
					string(seen.Request.GetArgsJson()) != test.args || !maps.Equal(seen.Context, test.context) {
					t.Errorf("the backend got %v, %v", seen.Request, seen.Context)
				}
			})
		}
	}
}

func TestFieldsFromLegacy(t *testing.T) {
	t.Parallel()
	for _, backend := range []call.Dialect{call.Doc, call.Live} {
		for name, test := range map[string]struct {
			args    string
			context map[string]string
			want    *docpb.InvokeRequest
			config  string
		}{
			"all": {`{"a": 1}`, map[string]string{"session_id": "s", "thread_id": "t", "capability_id": "caps",
				"user_id": "ann", "color": `"blü" & <grün>`, "config_json": `{"KEY":1}`},
				&docpb.InvokeRequest{SessionId: "s", ThreadId: "t", CapabilityId: "caps"},
				`{"context":{"color":"\"blü\" & <grün>","config_json":"{\"KEY\":1}"}}`},
			"nothing": {"", nil, &docpb.InvokeRequest{CapabilityId: "caps"}, `{"context":{}}`},
		} {
			t.Run(backend.String()+", "+name, func(t *testing.T) {
				t.Parallel()
				f := startFront(t, call.Legacy, backend)
				resp, err := legacypb.NewCapabilityServiceClient(f.conn).Invoke(to(t.Context(), "caps"),
					&legacypb.InvokeRequest{ToolName: gatewaytest.Echo, Parameters: test.args, Context: test.context})
				if err != nil || resp.GetResult() != test.args || !resp.GetSuccess() || resp.GetError() != "" {
					t.Fatalf("got %v, %v", resp, err)
				}
				seen := f.capability.Seen()[0].Request
				if seen.GetToolName() != gatewaytest.Echo || string(seen.GetArgsJson()) != test.args ||
					seen.GetSessionId() != test.want.GetSessionId() ||
					seen.GetThreadId() != test.want.GetThreadId() ||
					seen.GetCapabilityId() != test.want.GetCapabilityId() ||
					!sameJSON(t, string(seen.GetConfigJson()), test.config) {
					t.Errorf("the backend got %v", seen)
				}
			})
		}
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Errorf("%s: %v", a, err)
	}
	check.Must(t, json.Unmarshal([]byte(b), &y))
	return fmt.Sprint(x) == fmt.Sprint(y)
}

// TestInvalidUTF8IsRejected: bytes that are not UTF-8 are rejected, before the tool runs or in its result, and never
// changed.
func TestInvalidUTF8IsRejected(t *testing.T) {
	t.Parallel()
	for _, other := range []call.Dialect{call.Doc, call.Live} {
		t.Run(other.String(), func(t *testing.T) {
			t.Parallel()
			f := startFront(t, other, call.Legacy)
			for what, req := range map[string]*docpb.InvokeRequest{
				"arguments": {CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte("\xff")},
				"configuration": {CapabilityId: "caps", ToolName: gatewaytest.Echo, ArgsJson: []byte("{}"),
					ConfigJson: []byte("\xff")},
			} {
				wants(t, second(f.client.Invoke(t.Context(), req)), codes.InvalidArgument, "DIALECT_TEXT_ONLY")
				wants(t, second(f.client.StreamInvoke(t.Context(), req)), codes.InvalidArgument, "DIALECT_TEXT_ONLY")
				if seen := f.capability.Seen(); len(seen) != 0 {
					t.Errorf("%s: the backend got %v", what, seen)
				}
			}
			if lines := f.gateway.Log.Calls(t, 4); len(lines) != 4 || lines[0].Text("code") != "INVALID_ARGUMENT" ||
				lines[3].Text("reason") != "DIALECT_TEXT_ONLY" {
				t.Errorf("logged %v", lines)
			}
			back := startFront(t, call.Legacy, other)
			back.capability.SetLists(func() ([]byte, string, error) { return []byte("[\xff]"), "", nil })
			wants(t, second(back.client.Invoke(t.Context(), request(gatewaytest.List, `{}`))), codes.DataLoss,
				"DIALECT_TEXT_ONLY")
			requireOutcome(t, back, codes.DataLoss, "DIALECT_TEXT_ONLY")
			// A failure of the tool stays one.
			failing := startFront(t, call.Legacy, other)
			failing.capability.SetLists(func() ([]byte, string, error) { return []byte("\xff"), "no list", nil })
			if resp, err := failing.client.Invoke(t.Context(), request(gatewaytest.List, `{}`)); err != nil ||
				resp.GetError() != "no list" {
				t.Errorf("got %v, %v", resp, err)
			}
			// No decoder accepts bytes that are not UTF-8 in Legacy.
			malformed := []byte("\x0a\x01t\x12\x01\xff")
			err := f.conn.Invoke(to(t.Context(), "caps"), legacypb.CapabilityService_Invoke_FullMethodName, &malformed,
				new([]byte), grpc.ForceCodec(rawCodec{}))
			wants(t, err, codes.InvalidArgument, "AMBIGUOUS_MESSAGE")
		})
	}
}

// A legacy client may name the user of a call as far as its credential permits, and if it does so twice the
// names must agree.
func TestUsersOfLegacyClients(t *testing.T) {
	t.Parallel()
	for _, backend := range []call.Dialect{call.Doc, call.Legacy} {
		t.Run(backend.String(), func(t *testing.T) {
			t.Parallel()
			ring := newKeyring()
			f := keyed(t, ring, call.Legacy, backend)
			client := legacypb.NewCapabilityServiceClient(f.gateway.Conn(t))
			calls := 0
			for _, test := range []struct{ key, header, said, user, reason string }{
				{"acme", "", "ann", "", ""},
				{"orchestrator", "", "ann", "ann", ""},
				{"orchestrator", "ann", "ann", "ann", ""},
				{"orchestrator", "ann", "", "ann", ""},
				{"orchestrator", "bob", "ann", "", "IDENTITY_CONFLICT"},
				{"orchestrator", "", strings.Repeat("a", 257), "", "IDENTITY_INVALID"},
				{"acme", "bob", "ann", "", ""},
			} {
				for _, opts := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
					ctx := bearer(to(t.Context(), "caps"), ring.credentials[test.key])
					if test.header != "" {
						ctx = metadata.AppendToOutgoingContext(ctx, "x-user-id", test.header)
					}
					_, err := client.Invoke(ctx, &legacypb.InvokeRequest{ToolName: gatewaytest.Echo, Parameters: "{}",
						Context: map[string]string{"user_id": test.said}}, opts...)
					if errorInfo(err).GetReason() != test.reason {
						t.Errorf("%v: %v", test, err)
					}
					calls++
					line := f.gateway.Log.Calls(t, calls)[calls-1]
					if test.reason == "" && line.Text("user") != test.user {
						t.Errorf("%v: logged %v", test, line)
					}
				}
			}
		})
	}
}

// Policy checks the parameters of a legacy message as the arguments.
func TestArgumentsOfLegacyClients(t *testing.T) {
	t.Parallel()
	schema, err := toolschema.Compile([]byte(
		`{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}`))
	check.Must(t, err)
	tools := catalog.New(catalog.Options{})
	tools.Replace(map[string]catalog.Declaration{"caps": {Validate: true, Policy: call.Allow,
		Manifest: &manifest.Manifest{Tools: []manifest.Tool{
			{Name: gatewaytest.Echo, Schema: schema, Recommends: true, Recommended: call.Allow},
		}}}})
	for _, backend := range []call.Dialect{call.Doc, call.Live, call.Legacy} {
		t.Run(backend.String(), func(t *testing.T) {
			t.Parallel()
			c := gatewaytest.NewCapability("b1")
			g := gatewaytest.Start(t, gatewaytest.Options{
				Fleets: []gatewaytest.Fleet{{Capability: "caps", Backends: []string{c.Serve(t, backend).Addr}}},
				Policy: policy.Options{Source: tools},
			})
			client := gatewaytest.NewClient(g.Conn(t), call.Legacy)
			for _, opts := range [][]grpc.CallOption{nil, {grpc.UseCompressor(gzip.Name)}} {
				_, err := client.Invoke(to(t.Context(), "caps"), request(gatewaytest.Echo, `{"n": 1}`), opts...)
				wants(t, err, codes.OK, "")
				_, err = client.Invoke(to(t.Context(), "caps"), request(gatewaytest.Echo, `{"n": "x"}`), opts...)
				if info := wants(t, err, codes.InvalidArgument,
					"ARGUMENTS_INVALID"); info.GetMetadata()["pointer"] != "/n" {
					t.Errorf("got %v", info)
				}
			}
			if n := len(c.Seen()); n != 2 {
				t.Errorf("%d calls at the backend", n)
			}
		})
	}
}

// An approval binds one call, also a translated one: it is used once, and released by a call that did not
// start.
func TestApprovalsInEveryDialect(t *testing.T) {
	every(t, func(t *testing.T, client, backend call.Dialect) {
		d := openDesk(t)
		c := gatewaytest.NewCapability("b1")
		tools := catalog.New(catalog.Options{})
		tools.Replace(map[string]catalog.Declaration{"caps": {Policy: call.Ask}, "gone": {Policy: call.Ask}})
		g := gatewaytest.Start(t, gatewaytest.Options{
			Fleets: []gatewaytest.Fleet{
				{Capability: "caps", Backends: []string{c.Serve(t, backend).Addr}},
				{Capability: "gone", Backends: []string{gatewaytest.Unreachable(t)}, Dialect: backend, Unprobed: true},
			},
			Policy: policy.Options{Source: tools, Timeout: check.Patience}, Approver: d,
		})
		cl := gatewaytest.NewClient(g.Conn(t), client)
		for _, capability := range []string{"caps", "gone"} {
			req := &docpb.InvokeRequest{CapabilityId: capability, ToolName: gatewaytest.Echo,
				ArgsJson: []byte(`{"a": 1}`)}
			_, err := cl.Invoke(t.Context(), req)
			id := wants(t, err, codes.FailedPrecondition, "APPROVAL_REQUIRED").GetMetadata()["approval"]
			if _, err := d.Approve(t.Context(), "default", id, approvals.Answer{By: "eve"}); err != nil {
				t.Fatal(err)
			}
			ctx := metadata.AppendToOutgoingContext(t.Context(), "x-approval-id", id)
			other := &docpb.InvokeRequest{CapabilityId: capability, ToolName: gatewaytest.Echo,
				ArgsJson: []byte(`{"a": 2}`)}
			wants(t, second(cl.Invoke(ctx, other)), codes.PermissionDenied, "APPROVAL_MISMATCH")
			if capability == "gone" {
				wants(t, second(cl.Invoke(ctx, req)), codes.Unavailable, "BACKEND_UNREACHABLE")
				d.next(t, approvals.EventReleased) // it can be used again
				continue
			}
			wants(t, second(cl.Invoke(ctx, req)), codes.OK, "")
			wants(t, second(cl.Invoke(ctx, req)), codes.PermissionDenied, "APPROVAL_USED")
		}
		if n := len(c.Seen()); n != 1 {
			t.Errorf("%d calls at the backend", n)
		}
		ran := 0
		for _, line := range g.Log.Calls(t, 7) { // in any order
			if line.Text("code") == "OK" && line.Text("approval") != "" {
				ran++
			}
		}
		if ran != 1 {
			t.Errorf("%d lines of calls that ran by their approval", ran)
		}
	})
}

// JSON over HTTP and the gateway's own requests reach legacy backends.
func TestLegacyBackendsByEveryDoor(t *testing.T) {
	t.Parallel()
	f := startFront(t, call.Doc, call.Legacy)
	for _, test := range []struct {
		body   string
		status int
		want   string
	}{
		{`{"tool_name":"echo","args":{"a":[1,"ü"]},"session_id":"s"}`, 200, `{"result":{"a":[1,"ü"]}}`},
		{`{"tool_name":"echo"}`, 200, `{"result":{}}`},
		{`{"tool_name":"fail","args":{}}`, 200, `{"error":"the tool failed for {}"}`},
		{`{"tool_name":"mute"}`, 200, `{"error":"the tool failed without an error message"}`},
		{`{"tool_name":"echo","args_json":"/w=="}`, 400, "DIALECT_TEXT_ONLY"},
	} {
		for _, client := range []*http.Client{f.gateway.HTTP1(t), f.gateway.HTTP2(t)} {
			resp, body := post(t, client, f.gateway, "caps", test.body)
			if resp.StatusCode != test.status || test.status == 200 && !sameJSON(t, body, test.want) ||
				!strings.Contains(body, strings.Trim(test.want, "{}")) && test.status != 200 {
				t.Errorf("%s: %s %s", test.body, resp.Status, body)
			}
		}
	}
	f.capability.SetLists(func() ([]byte, string, error) { return []byte(`[]`), "", nil })
	if got, err := f.gateway.AskForTools(t.Context(),
		catalog.DiscoveryCall{Capability: "caps", Tool: gatewaytest.List}); err != nil || string(got.Tools) != "[]" {
		t.Errorf("got %s, %v", got.Tools, err)
	}
	f.gateway.Log.Calls(t, 11)
	if n := sum(f.gateway.Metrics(t), "capgate_tenant_calls_total"); n != 10 {
		t.Errorf("%v calls are the tenant's; the gateway's own must have no tenant", n)
	}
}

// In a fleet whose backends speak all dialects, every call reaches once a backend that supports it, whatever
// its caller speaks, also when the first backend is unreachable.
func TestFleetOfAllDialects(t *testing.T) {
	t.Parallel()
	for _, client := range []call.Dialect{call.Doc, call.Live, call.Legacy} {
		t.Run(client.String(), func(t *testing.T) {
			t.Parallel()
			var all []*gatewaytest.Capability
			var addrs []string
			for _, d := range []call.Dialect{call.Doc, call.Live, call.Legacy, call.Legacy} {
				c := gatewaytest.NewCapability(d.String())
				all, addrs = append(all, c), append(addrs, c.Serve(t, d).Addr)
			}
			leaving := gatewaytest.NewCapability("leaving")
			gone := leaving.Serve(t, call.Legacy)
			g := gatewaytest.Start(t, gatewaytest.Options{Fleets: []gatewaytest.Fleet{{Capability: "caps",
				Backends: append(addrs, gone.Addr)}}})
			c := gatewaytest.NewClient(g.Conn(t), client)
			const each = 30
			calls := 0
			run := func() {
				for i := range each {
					resp, err := c.Invoke(t.Context(), request(gatewaytest.Echo, `{"a":1}`))
					if err != nil || string(resp.GetResultJson()) != `{"a":1}` {
						t.Errorf("%d: %v, %v", i, resp, err)
					}
					calls++
					if client == call.Legacy {
						continue
					}
					if _, err := c.StreamInvoke(t.Context(), request(gatewaytest.Echo, `{"a":1}`)); err != nil {
						t.Error(err)
					}
					if _, err := c.Upload(to(t.Context(), "caps"), gatewaytest.File{Name: "f"}); err != nil {
						t.Error(err)
					}
					calls += 2
				}
			}
			run()
			gone.GoAway(t)
			run()
			got := len(leaving.Seen())
			for _, c := range all {
				got += len(c.Seen())
				if len(c.Seen()) == 0 {
					t.Errorf("%s got no call", c.Name)
				}
			}
			if lines := g.Log.Calls(t, calls); got != calls || len(lines) != calls {
				t.Errorf("%d calls were made %d times, and have %d lines", calls, got, len(lines))
			}
		})
	}
}

// A message of a translated call may have the maximum length. No other test runs at the same time.
func TestLongMessagesOfLegacy(t *testing.T) {
	for _, pair := range [][2]call.Dialect{{call.Doc, call.Legacy}, {call.Legacy, call.Live}} {
		t.Run(pair[0].String(), func(t *testing.T) {
			f := startFront(t, pair[0], pair[1])
			args := `"` + strings.Repeat("x", 8<<20) + `"`
			resp, err := f.client.Invoke(t.Context(), request(gatewaytest.Echo, args), grpc.MaxCallRecvMsgSize(64<<20))
			if err != nil || string(resp.GetResultJson()) != args {
				t.Errorf("%d bytes, %v", len(resp.GetResultJson()), err)
			}
			f.capability.SetLists(func() ([]byte, string, error) { return make([]byte, 16<<20), "", nil })
			_, err = f.client.Invoke(t.Context(), request(gatewaytest.List, `{}`), grpc.MaxCallRecvMsgSize(64<<20))
			if status.Code(err) != codes.ResourceExhausted {
				t.Errorf("too long: %v", err)
			}
		})
	}
}
