package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy"
	"github.com/capgate/capgate/policy/approvals"
	"github.com/capgate/capgate/policy/catalog"
)

// desk answers approvals for a test.
type desk struct {
	*approvals.Service
	events chan approvals.Event
	lost   sync.Map // IDs of approvals that have expired in the store
}

// openDesk stores approvals in a Redis of the test's own until the test ends.
func openDesk(t *testing.T) *desk {
	t.Helper()
	return openDeskWith(t, approvals.Options{})
}

func openDeskWith(t *testing.T, o approvals.Options) *desk {
	t.Helper()
	return openDeskOn(t, gatewaytest.OpenStore(t, "embedded").Approvals(), o)
}

func openDeskOn(t *testing.T, store approvals.Store, o approvals.Options) *desk {
	t.Helper()
	approver, err := approvals.New(store, o)
	check.Must(t, err)
	d := &desk{Service: approver, events: make(chan approvals.Event, 100)}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { approver.Run(ctx) })
	running.Go(func() {
		_ = approver.Events(ctx, "default", "0", func(e approvals.Event) error {
			d.events <- e
			return nil
		})
	})
	check.Cleanup(t, func() { stop(); check.Ended(t, &running, "the background work to end") })
	return d
}

// outside keeps goroutines that the desk starts out of the count of the gateway's.
func outside() { pprof.SetGoroutineLabels(context.Background()) }

// Create creates an approval.
func (d *desk) Create(ctx context.Context, r *approvals.Request) (approvals.Approval, bool, *call.Refusal) {
	outside()
	return d.Service.Create(ctx, r)
}

func (d *desk) Redeem(ctx context.Context, id string, r *approvals.Request) (approvals.Redemption, *call.Refusal) {
	outside()
	return d.Service.Redeem(ctx, id, r)
}

func (d *desk) Release(ctx context.Context, u approvals.Redemption) error {
	outside()
	return d.Service.Release(ctx, u)
}

// next waits for the next change of an approval.
func (d *desk) next(t *testing.T, kind approvals.Kind) approvals.Approval {
	t.Helper()
	for {
		if e := check.Received(t, d.events, fmt.Sprintf("an approval to be %s", kind)); e.Kind == kind {
			return e.Approval
		}
	}
}

// behindDesk returns a front whose fleet requires approval for each call.
func behindDesk(t *testing.T, d *desk, rules policy.Store) *front {
	t.Helper()
	f := &front{capability: gatewaytest.NewCapability("b1")}
	f.backend = f.capability.Serve(t, call.Doc)
	tools := catalog.New(catalog.Options{})
	tools.Replace(map[string]catalog.Declaration{"caps": {Policy: call.Ask}})
	f.gateway = gatewaytest.Start(t, gatewaytest.Options{
		Fleets: []gatewaytest.Fleet{{Capability: "caps", Services: []string{"test.Other"},
			Backends: []string{f.backend.Addr}}},
		// each call requires a new approval
		Policy:   policy.Options{Store: rules, Source: tools, Timeout: check.Patience, TTL: 1},
		Approver: d,
	})
	f.conn = f.gateway.Conn(t)
	f.client = gatewaytest.NewClient(f.conn, call.Doc)
	return f
}

func with(ctx context.Context, pairs ...string) context.Context {
	return metadata.AppendToOutgoingContext(to(ctx, "caps"), pairs...)
}

func wants(t *testing.T, err error, code codes.Code, reason string) *errdetails.ErrorInfo {
	t.Helper()
	info := errorInfo(err)
	if status.Code(err) != code || info.GetReason() != reason {
		t.Errorf("got %v %v, want %v %s", err, info, code, reason)
	}
	return info
}

// TestAnApprovedCallRunsOnce: a call is rejected, approved, made again and run; then the approval is used up.
func TestAnApprovedCallRunsOnce(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	f := behindDesk(t, d, nil)
	for way, opts := range map[string][]grpc.CallOption{"plain": nil, "compressed": {grpc.UseCompressor(gzip.Name)}} {
		req := request(gatewaytest.Echo, `{"a":1,"b":"`+way+`"}`)
		_, err := f.client.Invoke(with(t.Context()), req, opts...)
		info := wants(t, err, codes.FailedPrecondition, "APPROVAL_REQUIRED")
		id := info.GetMetadata()["approval"]
		if expires, err := time.Parse(time.RFC3339, info.GetMetadata()["expires"]); err != nil ||
			expires.Before(time.Now()) {
			t.Errorf("expires: %v, %v", info.GetMetadata(), err)
		}
		if _, err = f.client.StreamInvoke(with(t.Context()), req,
			opts...); errorInfo(err).GetMetadata()["approval"] != id {
			t.Errorf("the same call streaming: %v", errorInfo(err))
		}
		_, err = f.client.Invoke(with(t.Context(), "x-approval-id", id), req, opts...)
		wants(t, err, codes.PermissionDenied, "APPROVAL_PENDING")
		if _, err := d.Approve(t.Context(), "default", id, approvals.Answer{By: "eve"}); err != nil {
			t.Fatal(err)
		}
		_, err = f.client.Invoke(with(t.Context(), "x-approval-id", id), request(gatewaytest.Echo, `{"a":2}`), opts...)
		wants(t, err, codes.PermissionDenied, "APPROVAL_MISMATCH")
		_, err = f.client.Invoke(with(t.Context(), "x-approval-id", id, "x-user-id", "bob"), req, opts...)
		wants(t, err, codes.PermissionDenied, "APPROVAL_MISMATCH")
		other := request(gatewaytest.Echo, `{"a":1.0,"b":"`+way+`"}`) // which some backends read as another number
		_, err = f.client.Invoke(with(t.Context(), "x-approval-id", id), other, opts...)
		wants(t, err, codes.PermissionDenied, "APPROVAL_MISMATCH")
		again := request(gatewaytest.Echo, ` {"b": "`+way+`", "a": 1}`) // the same arguments, written differently
		if _, err = f.client.Invoke(with(t.Context(), "x-approval-id", id), again, opts...); err != nil {
			t.Fatal(err)
		}
		_, err = f.client.Invoke(with(t.Context(), "x-approval-id", id), req, opts...)
		wants(t, err, codes.PermissionDenied, "APPROVAL_USED")
	}
	seen := f.capability.Seen()
	if len(seen) != 2 {
		t.Errorf("%d calls at the backend", len(seen))
	}
	for _, s := range seen {
		if s.Metadata.Get("x-approval-id") != nil || s.Metadata.Get("x-approval-wait") != nil {
			t.Errorf("the backend got %v", s.Metadata)
		}
	}
	_, err := f.client.Invoke(with(t.Context(), "x-approval-id", "apr_"), request(gatewaytest.Echo, `{}`))
	wants(t, err, codes.PermissionDenied, "APPROVAL_UNKNOWN")
}

// TestApprovalsByJSON: the 202 response names the approval's URL.
func TestApprovalsByJSON(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	f := behindDesk(t, d, nil)
	post := func(header ...string) (*http.Response, string) {
		t.Helper()
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost,
			f.gateway.URL("/v1/capabilities/caps/invoke"), strings.NewReader(`{"tool_name":"`+gatewaytest.Echo+
				`","args":{"a":1}}`))
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := f.gateway.HTTP1(t).Do(req)
		check.Must(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		check.Must(t, err)
		return resp, string(body)
	}
	resp, body := post()
	var said struct {
		Status   string    `json:"status"`
		Approval string    `json:"approval_id"`
		Expires  time.Time `json:"expire_time"`
	}
	if err := json.Unmarshal([]byte(body), &said); err != nil || resp.StatusCode != http.StatusAccepted ||
		said.Status != "approval_required" ||
		resp.Header.Get("Location") != "/v1/approvals/"+said.Approval || resp.Header.Get("Retry-After") != "5" ||
		said.Expires.IsZero() {
		t.Fatalf("%s %v %s; err %+v; said %+v", resp.Status, resp.Header, body, err, said)
	}
	answered := make(chan error, 1)
	go func() {
		_, err := d.Approve(context.Background(), "default", said.Approval, approvals.Answer{})
		answered <- err
	}()
	resp, body = post("Prefer", "respond-async, wait=20")
	if err := check.Received(t, answered, "the answer"); err != nil || resp.StatusCode != http.StatusOK ||
		resp.Header.Get("Preference-Applied") != "wait=20" {
		t.Errorf("got %v %s %v %s", err, resp.Status, resp.Header, body)
	}
	if resp, body = post("X-Approval-Id", said.Approval); resp.StatusCode != http.StatusForbidden ||
		!strings.Contains(body, "APPROVAL_USED") {
		t.Errorf("got %s %s", resp.Status, body)
	}
}

// TestACallWaitsForAPerson: a held call continues as soon as it is approved.
func TestACallWaitsForAPerson(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	f := behindDesk(t, d, nil)
	invoke := func(ctx context.Context, args string) <-chan error {
		ended := make(chan error, 1)
		go func() {
			_, err := f.client.Invoke(with(ctx, "x-approval-wait", "60"), request(gatewaytest.Echo, args))
			ended <- err
		}()
		return ended
	}
	approved := invoke(t.Context(), `{"n":1}`)
	if _, err := d.Approve(t.Context(), "default", d.next(t, approvals.EventCreated).ID,
		approvals.Answer{}); err != nil {
		t.Fatal(err)
	}
	if err := check.Received(t, approved, "the approval"); err != nil {
		t.Error(err)
	}
	denied := invoke(t.Context(), `{"n":2}`)
	if _, err := d.Deny(t.Context(), "default", d.next(t, approvals.EventCreated).ID, approvals.Answer{}); err != nil {
		t.Fatal(err)
	}
	wants(t, check.Received(t, denied, "the denial"), codes.PermissionDenied, "APPROVAL_DENIED")

	ctx, leave := context.WithCancel(t.Context())
	left := invoke(ctx, `{"n":3}`)
	id := d.next(t, approvals.EventCreated).ID
	leave()
	if err := check.Received(t, left, "the end of the call of who leaves"); status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	f.gateway.Log.Calls(t, 3) // until the gateway has noticed that the caller left
	if _, err := d.Approve(t.Context(), "default", id, approvals.Answer{}); err != nil {
		t.Fatal(err) // the caller has left
	}
	if a, err := d.Get(t.Context(), "default", id); err != nil || a.State != approvals.Approved {
		t.Errorf("got %v, %v", a.State, err)
	}

	short, cancel := context.WithTimeout(t.Context(), check.Patience)
	defer cancel()
	_, err := f.client.Invoke(with(short, "x-approval-wait", "0.05"), request(gatewaytest.Echo, `{"n":4}`))
	wants(t, err, codes.FailedPrecondition, "APPROVAL_REQUIRED")
	if seen := f.capability.Seen(); len(seen) != 1 {
		t.Errorf("%d calls at the backend", len(seen))
	}
}

// TestHeldCallsEndWhenTheGatewayStops: calls that wait for approval end when the gateway stops.
func TestHeldCallsEndWhenTheGatewayStops(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	f := behindDesk(t, d, nil)
	ended := make(chan error, 1)
	go func() {
		_, err := f.client.Invoke(with(t.Context(), "x-approval-wait", "600"), request(gatewaytest.Echo, `{}`))
		ended <- err
	}()
	d.next(t, approvals.EventCreated)
	f.gateway.Drain()
	wants(t, check.Received(t, ended, "the end of the call"), codes.FailedPrecondition, "APPROVAL_REQUIRED")
	check.Received(t, f.gateway.Stopped(), "the gateway to stop")
}

// TestACallThatDidNotStartKeepsItsApproval: a call that was not sent to a backend can use its approval again.
func TestACallThatDidNotStartKeepsItsApproval(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	f := behindDesk(t, d, nil)
	req := request(gatewaytest.Echo, `{}`)
	_, err := f.client.Invoke(with(t.Context()), req)
	id := wants(t, err, codes.FailedPrecondition, "APPROVAL_REQUIRED").GetMetadata()["approval"]
	if _, err := d.Approve(t.Context(), "default", id, approvals.Answer{}); err != nil {
		t.Fatal(err)
	}
	f.backend.Stop()
	_, err = f.client.Invoke(with(t.Context(), "x-approval-id", id), req)
	if status.Code(err) != codes.Unavailable {
		t.Fatal(err)
	}
	d.next(t, approvals.EventReleased)
	if a, err := d.Get(t.Context(), "default", id); err != nil || a.State != approvals.Approved {
		t.Errorf("got %v, %v", a.State, err)
	}
}

// TestAToolBlockedAfterApprovalStaysBlocked: a tool that is blocked after the approval stays blocked.
func TestAToolBlockedAfterApprovalStaysBlocked(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	rules := &ruled{rules: map[policy.Name]call.Verdict{on("caps", gatewaytest.Echo): call.Ask}}
	f := behindDesk(t, d, rules)
	req := request(gatewaytest.Echo, `{}`)
	_, err := f.client.Invoke(with(t.Context()), req)
	id := wants(t, err, codes.FailedPrecondition, "APPROVAL_REQUIRED").GetMetadata()["approval"]
	if _, err := d.Approve(t.Context(), "default", id, approvals.Answer{}); err != nil {
		t.Fatal(err)
	}
	rules.set(policy.Name{Capability: "caps", Tool: gatewaytest.Echo, User: "ann"}, call.Block)
	_, err = f.client.Invoke(with(t.Context(), "x-approval-id", id, "x-user-id", "ann"), req)
	wants(t, err, codes.PermissionDenied, "TOOL_BLOCKED")
}

// TestAToolBlockedDuringTheWaitStaysBlocked: if a tool is blocked while a call waits, the approved call is
// rejected and its approval is not used up.
func TestAToolBlockedDuringTheWaitStaysBlocked(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	rules := &ruled{rules: map[policy.Name]call.Verdict{on("caps", gatewaytest.Echo): call.Ask}}
	f := behindDesk(t, d, rules)
	ended := make(chan error, 1)
	go func() {
		_, err := f.client.Invoke(with(t.Context(), "x-approval-wait", "60"), request(gatewaytest.Echo, `{}`))
		ended <- err
	}()
	id := d.next(t, approvals.EventCreated).ID
	rules.set(on("caps", gatewaytest.Echo), call.Block)
	if _, err := d.Approve(t.Context(), "default", id, approvals.Answer{}); err != nil {
		t.Fatal(err)
	}
	wants(t, check.Received(t, ended, "the end of the call"), codes.PermissionDenied, "TOOL_BLOCKED")
	if a, err := d.Get(t.Context(), "default", id); err != nil || a.State != approvals.Approved {
		t.Errorf("got %v, %v", a.State, err)
	}
}

// TestUnapprovableCallsAreRejected: a call that cannot be approved is rejected before an approval is created.
func TestUnapprovableCallsAreRejected(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	f := behindDesk(t, d, nil)
	for name, test := range map[string]struct {
		args   string
		md     []string
		reason string
	}{
		"no JSON":           {`{"a":`, nil, "ARGUMENTS_INVALID"},
		"a name twice":      {`{"a":1,"a":2}`, nil, "AMBIGUOUS_ARGUMENTS"},
		"two approvals":     {`{}`, []string{"x-approval-id", "a", "x-approval-id", "b"}, "APPROVAL_INVALID"},
		"not a number":      {`{}`, []string{"x-approval-wait", "soon"}, "APPROVAL_INVALID"},
		"NaN":               {`{}`, []string{"x-approval-wait", "NaN"}, "APPROVAL_INVALID"},
		"before the call":   {`{}`, []string{"x-approval-wait", "-1"}, "APPROVAL_INVALID"},
		"forever is 10 min": {`{"a":`, []string{"x-approval-wait", "1e300"}, "ARGUMENTS_INVALID"},
	} {
		_, err := f.client.Invoke(with(t.Context(), test.md...), request(gatewaytest.Echo, test.args))
		if status.Code(err) != codes.InvalidArgument || errorInfo(err).GetReason() != test.reason {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := f.conn.Invoke(t.Context(), "/test.Other/Do", request("", ""), request("", ""))
	wants(t, err, codes.FailedPrecondition, "APPROVAL_IMPOSSIBLE")
	if page, _, err := d.List(t.Context(), "default", approvals.Filter{}, "", 10); err != nil || len(page) != 0 {
		t.Errorf("got %d approvals, %v", len(page), err)
	}
}

// TestApprovalsAreRecorded: the access log of a call has the id of its approval.
func TestApprovalsAreRecorded(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	f := behindDesk(t, d, nil)
	_, err := f.client.Invoke(with(t.Context()), request(gatewaytest.Echo, `{"secret":"hunter2"}`))
	id := errorInfo(err).GetMetadata()["approval"]
	line := f.gateway.Log.Calls(t, 1)[0]
	if id == "" || line["approval"] != id || line["policy"] != "ask" || line["reason"] != "APPROVAL_REQUIRED" {
		t.Errorf("%s: %v", id, line)
	}
	if strings.Contains(f.gateway.Log.String(), "hunter2") {
		t.Error("an argument is in the log")
	}
}
