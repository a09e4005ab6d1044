package gateway_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy/approvals"
	docpb "github.com/capgate/capgate/proto/selu/capability"
	legacypb "github.com/capgate/capgate/proto/selu/legacy"
)

// An approval binds everything that configures the call: the same arguments with another configuration, session
// or thread are another request.
func TestAnApprovalBindsAllOfACall(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	f := behindDesk(t, d, nil)
	call := func(change func(*docpb.InvokeRequest)) *docpb.InvokeRequest {
		req := request(gatewaytest.Echo, `{"a":1}`)
		req.ConfigJson, req.SessionId, req.ThreadId = []byte(`{"KEY":"canary-1","URL":"a"}`), "s1", "t1"
		change(req)
		return req
	}
	same := call(func(*docpb.InvokeRequest) {})
	info := wants(t, errOf(f.client.Invoke(with(t.Context()), same)), codes.FailedPrecondition, "APPROVAL_REQUIRED")
	id := info.GetMetadata()["approval"]
	if _, err := d.Approve(t.Context(), "default", id, approvals.Answer{By: "eve"}); err != nil {
		t.Fatal(err)
	}
	for differs, change := range map[string]func(*docpb.InvokeRequest){
		"arguments":   func(r *docpb.InvokeRequest) { r.ArgsJson = []byte(`{"a":2}`) },
		"config_json": func(r *docpb.InvokeRequest) { r.ConfigJson = []byte(`{"KEY":"canary-2","URL":"a"}`) },
		"session":     func(r *docpb.InvokeRequest) { r.SessionId = "s2" },
		"thread":      func(r *docpb.InvokeRequest) { r.ThreadId = "t2" },
	} {
		other := call(change)
		asked := wants(t, errOf(f.client.Invoke(with(t.Context()), other)), codes.FailedPrecondition,
			"APPROVAL_REQUIRED")
		if asked.GetMetadata()["approval"] == id {
			t.Errorf("a request with another %s used the approval", differs)
		}
		err := errOf(f.client.Invoke(with(t.Context(), "x-approval-id", id), other))
		if got := wants(t, err, codes.PermissionDenied, "APPROVAL_MISMATCH").GetMetadata()["differs"]; got != differs {
			t.Errorf("%s differs, want %s", got, differs)
		}
	}
	for _, config := range []string{``, `{}`, `{"KEY":"canary-1"}`} {
		err := errOf(f.client.Invoke(with(t.Context(), "x-approval-id", id),
			call(func(r *docpb.InvokeRequest) { r.ConfigJson = []byte(config) })))
		wants(t, err, codes.PermissionDenied, "APPROVAL_MISMATCH")
	}
	for config, reason := range map[string]string{
		`{"KEY":"canary-1","KEY":"canary-2","URL":"a"}`: "AMBIGUOUS_ARGUMENTS",
		"\ufeff" + string(same.GetConfigJson()):         "AMBIGUOUS_ARGUMENTS",
		`{"KEY":`:                                       "CONFIG_INVALID",
	} {
		err := errOf(f.client.Invoke(with(t.Context(), "x-approval-id", id),
			call(func(r *docpb.InvokeRequest) { r.ConfigJson = []byte(config) })))
		wants(t, err, codes.InvalidArgument, reason)
		if strings.Contains(err.Error(), "canary") {
			t.Errorf("the refusal repeats the configuration: %v", err)
		}
	}
	// in another order
	again := call(func(r *docpb.InvokeRequest) { r.ConfigJson = []byte(` {"URL": "a", "KEY": "canary-1"}`) })
	if _, err := f.client.Invoke(with(t.Context(), "x-approval-id", id), again); err != nil {
		t.Error(err)
	}
	seen := f.capability.Seen()
	if len(seen) != 1 || string(seen[0].Request.GetConfigJson()) != string(again.GetConfigJson()) {
		t.Errorf("the backend saw %v", seen)
	}
	record, err := d.Get(t.Context(), "default", id)
	if err != nil || strings.Contains(record.Preview, "canary") {
		t.Errorf("got %+v, %v", record, err)
	}
}

// In the legacy dialect the configuration is a map, whose entries have no order.
func TestAnApprovalBindsALegacyContext(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	f := behindDesk(t, d, nil)
	c := legacypb.NewCapabilityServiceClient(f.conn)
	call := func(change map[string]string) *legacypb.InvokeRequest {
		said := map[string]string{"capability_id": "caps", "session_id": "s1", "thread_id": "t1", "region": "eu",
			"team": "a", "tier": "1", "config_json": `{"KEY":"1"}`}
		for name, value := range change {
			said[name] = value
		}
		return &legacypb.InvokeRequest{ToolName: gatewaytest.Echo, Parameters: `{"a":1}`, Context: said}
	}
	info := wants(t, errOf(c.Invoke(with(t.Context()), call(nil))), codes.FailedPrecondition, "APPROVAL_REQUIRED")
	id := info.GetMetadata()["approval"]
	for range 20 {
		if again := errorInfo(errOf(c.Invoke(with(t.Context()), call(nil)))); again.GetMetadata()["approval"] != id {
			t.Fatalf("the same call did not use the approval: %v", again)
		}
	}
	if _, err := d.Approve(t.Context(), "default", id, approvals.Answer{By: "eve"}); err != nil {
		t.Fatal(err)
	}
	for name, differs := range map[string]string{"region": "config_json", "more": "config_json",
		"config_json": "config_json", "session_id": "session", "thread_id": "thread"} {
		value := "other"
		if name == "config_json" {
			value = `{"KEY":"2"}`
		}
		err := errOf(c.Invoke(with(t.Context(), "x-approval-id", id), call(map[string]string{name: value})))
		if got := wants(t, err, codes.PermissionDenied, "APPROVAL_MISMATCH").GetMetadata()["differs"]; got != differs {
			t.Errorf("%s: %s differs", name, got)
		}
	}
	if _, err := c.Invoke(with(t.Context(), "x-approval-id", id), call(nil)); err != nil {
		t.Error(err)
	}
}
