package approval_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/clienttest"
	"github.com/capgate/capgate/policy/approvals"
	capgatepb "github.com/capgate/capgate/proto/capgate/v1"
)

// watch follows events over gRPC.
func watch(ctx context.Context, t *testing.T, client capgatepb.ApprovalsClient,
	after string) (next func() *capgatepb.WatchApprovalsResponse) {
	t.Helper()
	stream, err := client.WatchApprovals(ctx, &capgatepb.WatchApprovalsRequest{LastEventId: after})
	check.Must(t, err)
	next = func() *capgatepb.WatchApprovalsResponse {
		t.Helper()
		e, err := stream.Recv()
		check.Must(t, err)
		return e
	}
	if e := next(); e.GetEvent() != "began" || e.GetId() == "" {
		t.Fatalf("first: %v", e)
	}
	return next
}

// TestWatch: events are sent at once, and again after a given event.
func TestWatch(t *testing.T) {
	t.Parallel()
	p := serve(t)
	p.ask(t, approvals.Request{User: "early"})
	next := watch(t.Context(), t, p.client, "")
	a := p.ask(t, approvals.Request{User: "ann"})
	first := next()
	if first.GetEvent() != "asked" || first.GetApproval().GetId() != a.ID || first.GetApproval().GetUser() != "ann" {
		t.Fatal(first)
	}
	if _, err := p.client.Approve(t.Context(), &capgatepb.ApproveRequest{ApprovalId: a.ID, By: "eve"}); err != nil {
		t.Fatal(err)
	}
	if e := next(); e.GetEvent() != "approved" || e.GetApproval().GetAnsweredBy() != "eve" {
		t.Fatal(e)
	}
	again := watch(t.Context(), t, p.client, first.GetId())
	if e := again(); e.GetEvent() != "approved" || e.GetApproval().GetId() != a.ID {
		t.Fatal(e)
	}
	old := watch(t.Context(), t, p.client, "0")
	for _, want := range []string{"early", "ann", "ann"} {
		if e := old(); e.GetApproval().GetUser() != want {
			t.Fatal(e)
		}
	}
	missed := watch(t.Context(), t, p.client, "1-1")
	if e := missed(); e.GetEvent() != "missed" || e.GetApproval() != nil {
		t.Fatal(e)
	}
}

// TestCallersWatchTheirOwn: callers get no events of others.
func TestCallersWatchTheirOwn(t *testing.T) {
	t.Parallel()
	p := serve(t)
	next := watch(caller(t.Context(), tenant.Default, "ann"), t, p.callers, "")
	p.ask(t, approvals.Request{User: "bob"})
	p.ask(t, approvals.Request{Tenant: "acme", User: "ann"})
	p.ask(t, approvals.Request{User: "ann", Tool: "first"})
	p.ask(t, approvals.Request{User: ""})
	p.ask(t, approvals.Request{User: "ann", Tool: "second"})
	for _, want := range []string{"first", "second"} {
		if e := next(); e.GetApproval().GetTool() != want || e.GetApproval().GetTenant() != tenant.Default {
			t.Fatal(e)
		}
	}
	all := watch(caller(t.Context(), tenant.Default, ""), t, p.callers, "0")
	for _, want := range []string{"bob", "ann", "", "ann"} {
		if e := all(); e.GetApproval().GetUser() != want {
			t.Fatal(e)
		}
	}
	stream, err := p.callers.WatchApprovals(caller(t.Context(), tenant.Default, "ann"),
		&capgatepb.WatchApprovalsRequest{Tenant: "acme"})
	if err == nil {
		_, err = stream.Recv()
	}
	refusal(t, "another tenant's", err, codes.NotFound, "APPROVAL_UNKNOWN")
}

// TestWatchersAreBounded: one tenant's have four fifths of the places, and another's find some. All are sent
// away when the gateway stops.
func TestWatchersAreBounded(t *testing.T) {
	t.Parallel()
	p := serve(t)
	var streams []capgatepb.Approvals_WatchApprovalsClient
	for range 257 {
		stream, err := p.callers.WatchApprovals(caller(t.Context(), tenant.Default, ""),
			&capgatepb.WatchApprovalsRequest{})
		check.Must(t, err)
		if _, err = stream.Recv(); err == nil {
			streams = append(streams, stream)
			continue
		}
		refusal(t, "one too many", err, codes.ResourceExhausted, "WATCHERS_FULL")
	}
	if len(streams) != 204 {
		t.Errorf("%d watch", len(streams))
	}
	other, err := p.callers.WatchApprovals(caller(t.Context(), "acme", ""), &capgatepb.WatchApprovalsRequest{})
	if err == nil {
		_, err = other.Recv()
	}
	if err != nil {
		t.Fatalf("another tenant's: %v", err)
	}
	streams = append(streams, other)
	p.service.Leave()
	for _, s := range streams {
		_, err := s.Recv()
		refusal(t, "who watches", err, codes.Unavailable, "DRAINING")
	}
}

// sse is an EventSource: it stores the last id, and dispatches events with data.
type sse struct {
	t     *testing.T
	lines *bufio.Scanner
	last  string
}

// dispatched is one event.
type dispatched struct {
	kind string
	data map[string]any
}

// source opens one, as a browser does.
func source(ctx context.Context, t *testing.T, client *http.Client, url, last string) *sse {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	check.Must(t, err)
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	resp, err := client.Do(req)
	check.Must(t, err)
	check.Cleanup(t, func() { _ = resp.Body.Close() })
	if h := resp.Header; resp.StatusCode != 200 || h.Get("Content-Type") != "text/event-stream" ||
		h.Get("Cache-Control") != "no-store" || h.Get("X-Accel-Buffering") != "no" {
		t.Fatal(resp.StatusCode, h)
	}
	return &sse{t: t, lines: bufio.NewScanner(resp.Body), last: last}
}

// block reads up to the next empty line; not ok at the end.
func (s *sse) block() (fields map[string]string, ok bool) {
	fields = map[string]string{}
	for s.lines.Scan() {
		line := s.lines.Text()
		if line == "" {
			return fields, true
		}
		name, value, _ := strings.Cut(line, ":")
		fields[name] = strings.TrimPrefix(value, " ")
	}
	return nil, false
}

func (s *sse) next() dispatched {
	s.t.Helper()
	for {
		fields, ok := s.block()
		if !ok {
			s.t.Fatal("the stream ended: ", s.lines.Err())
		}
		if id := fields["id"]; id != "" {
			s.last = id
		}
		if fields["data"] == "" {
			continue
		}
		d := dispatched{kind: fields["event"]}
		check.Must(s.t, json.Unmarshal([]byte(fields["data"]), &d.data))
		return d
	}
}

// TestServerSentEvents by each version of HTTP, and how they go on.
func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	p := serve(t)
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(!http2)
		protocols.SetUnencryptedHTTP2(http2)
		transport := &http.Transport{Protocols: protocols}
		check.Cleanup(t, transport.CloseIdleConnections)
		client := &http.Client{Transport: clienttest.Bound(transport)}

		ctx, leave := context.WithCancel(t.Context())
		s := source(ctx, t, client, p.URL+"/v1/approvals/events", "")
		if fields, _ := s.block(); fields["retry"] != "2000" {
			t.Errorf("%s: %v", name, fields)
		}
		if fields, _ := s.block(); fields["id"] == "" || len(fields) != 1 {
			t.Errorf("%s: where it begins: %v", name, fields)
		}
		a := p.ask(t, approvals.Request{User: name, Args: []byte(`{"a":"x\ny\u2028<b>"}`)})
		e := s.next()
		if e.kind != "asked" || e.data["id"] != a.ID || e.data["state"] != "pending" ||
			e.data["arguments"] != a.Preview || e.data["user"] != name {
			t.Errorf("%s: %v", name, e)
		}
		leave()
		if _, err := p.client.Deny(t.Context(), &capgatepb.DenyRequest{ApprovalId: a.ID}); err != nil {
			t.Fatal(err)
		}
		if e := source(t.Context(), t, client, p.URL+"/v1/approvals/events?tenant=default",
			s.last).next(); e.kind != "denied" || e.data["id"] != a.ID {
			t.Errorf("%s: %v", name, e)
		}
		if e := source(t.Context(), t, client, p.URL+"/v1/approvals/events?last_event_id="+s.last,
			"").next(); e.kind != "denied" {
			t.Errorf("%s: %v", name, e)
		}
	}
	s := source(t.Context(), t, clienttest.HTTP, p.URL+"/v1/approvals/events", "")
	_, _ = s.block()
	p.service.Leave()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ok := true; ok; _, ok = s.block() {
		}
	}()
	check.Received(t, ended, "the events to end when the gateway stops")
	if code, body := p.Ask(t, "GET", "/v1/approvals/events", ""); code != 503 || !strings.Contains(body, "DRAINING") {
		t.Errorf("%d %s", code, body)
	}
}
