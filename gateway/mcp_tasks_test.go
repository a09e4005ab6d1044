package gateway_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/internal/lib/aead"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy/approvals"
)

// taskMeta is the metadata of a client that supports tasks.
const taskMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/` +
	`clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}`

// noApproval is the id of no approval.
const noApproval = "apr_AAAAAAAAAAAAAAAAAAAAAAAAAA"

// taskAnswer is a response about a task.
type taskAnswer struct {
	Result struct {
		ResultType, TaskID, Status, StatusMessage string
		TTLMs, PollIntervalMs                     int
		IsError                                   bool
		Result                                    struct {
			ResultType        string
			StructuredContent json.RawMessage
			IsError           bool
		}
		Error struct{ Data struct{ Reason string } }
	}
	Error struct {
		Code int
		Data struct {
			Reason               string
			RequiredCapabilities struct{ Extensions map[string]any }
		}
	}
}

// outsideStore is a store whose connections do not count as the gateway's, including those opened during a
// call.
type outsideStore struct {
	idempotency.Store
	claims func(*idempotency.Claim) // called before a key is claimed; optional
}

// Begin implements idempotency.Store, like the others.
func (s outsideStore) Begin(ctx context.Context, c *idempotency.Claim) (idempotency.Found, error) {
	outside()
	if s.claims != nil && c.Limit > 0 {
		s.claims(c)
	}
	return s.Store.Begin(ctx, c)
}

func (s outsideStore) End(ctx context.Context, c *idempotency.Claim, state idempotency.State, sealed []byte) error {
	outside()
	return s.Store.End(ctx, c, state, sealed)
}

// Get implements tools.TaskApprovals, like Withdraw.
func (d *desk) Get(ctx context.Context, tenant, id string) (approvals.Approval, error) {
	outside()
	if _, lost := d.lost.Load(id); lost {
		id = noApproval
	}
	return d.Service.Get(ctx, tenant, id)
}

func (d *desk) Withdraw(ctx context.Context, tenant, id string) error {
	outside()
	return d.Service.Withdraw(ctx, tenant, id)
}

// startTaskReplicas runs gateways that share approvals and stored calls.
func startTaskReplicas(t *testing.T, n int, claims ...func(*idempotency.Claim)) (d *desk, all []*mcpFront) {
	t.Helper()
	d = openDesk(t)
	store := outsideStore{Store: gatewaytest.OpenStore(t, "embedded").Idempotency()}
	if len(claims) > 0 {
		store.claims = claims[0]
	}
	for range n {
		stored, err := idempotency.New(store, idempotency.Options{Keys: [][]byte{make([]byte, aead.KeyBytes)}})
		check.Must(t, err)
		check.Cleanup(t, stored.Close)
		all = append(all, startMCP(t, askingMCP(d, check.Patience), func(o *gatewaytest.Options) {
			o.Answers = stored
			o.MCP.Approvals = d
		}))
	}
	return d, all
}

func (f *mcpFront) rpc(t *testing.T, method, name, params string, header ...string) (answer taskAnswer) {
	t.Helper()
	_, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{`+params+`}}`, append([]string{
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method, "Mcp-Name", name}, header...)...)
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return answer
}

// create calls a tool as a client that supports tasks.
func (f *mcpFront) create(t *testing.T, tool, args string) (id string) {
	t.Helper()
	a := f.rpc(t, "tools/call", "caps__"+tool, taskMeta+`,"name":"caps__`+tool+`","arguments":`+args)
	if a.Result.ResultType != "task" || a.Result.Status != "working" || a.Result.TTLMs <= 0 ||
		a.Result.PollIntervalMs <= 0 {
		t.Fatalf("got %+v", a)
	}
	return a.Result.TaskID
}

// about requests a task.
func (f *mcpFront) about(t *testing.T, method, id string, header ...string) taskAnswer {
	t.Helper()
	return f.rpc(t, method, id, taskMeta+`,"taskId":"`+id+`"`, header...)
}

// status returns the status of a task, and the reason of its failure.
func (f *mcpFront) status(t *testing.T, id string) string {
	t.Helper()
	a := f.about(t, "tasks/get", id)
	if a.Result.ResultType != "complete" || a.Result.TaskID != id {
		t.Errorf("got %+v", a)
	}
	return strings.TrimSpace(a.Result.Status + " " + a.Result.Error.Data.Reason)
}

// completes waits until a working task is completed.
func (f *mcpFront) completes(t *testing.T, id string) {
	t.Helper()
	check.Until(t, "the task to be completed", func() (bool, string) {
		got := f.status(t, id)
		if got != "completed" && got != "working" {
			t.Fatalf("got %q", got)
		}
		return got == "completed", got
	})
}

func calls(all []*mcpFront) (n int) {
	for _, f := range all {
		n += len(f.capability.Seen())
	}
	return n
}

// TestMCPTasks: a call that requires approval is a task with the approval's id. Any replica returns its result,
// and however many requests there are at the same time, the call runs once.
func TestMCPTasks(t *testing.T) {
	t.Parallel()
	d, all := startTaskReplicas(t, 3)
	id := all[0].create(t, gatewaytest.Echo, `{"a":1}`)
	if created := d.next(t, approvals.EventCreated).ID; created != id {
		t.Errorf("the approval is %s, the task %s", created, id)
	}
	if got := all[1].status(t, id); got != "working" || calls(all) > 0 {
		t.Errorf("%q after %d calls", got, calls(all))
	}
	d.approve(t, id)
	var approvalGateway sync.WaitGroup
	for i := range 12 {
		approvalGateway.Go(func() {
			a := all[i%3].about(t, "tasks/get", id)
			for a.Result.Status == "working" { // until another request has started the call
				a = all[i%3].about(t, "tasks/get", id)
			}
			if r := a.Result; r.Status != "completed" || string(r.Result.StructuredContent) != `{"a":1}` {
				t.Errorf("%+v; r %+v", a, r)
			}
		})
	}
	check.Ended(t, &approvalGateway, "the calls")
	if n := calls(all); n != 1 {
		t.Errorf("%d calls", n)
	}
	if again := all[1].create(t, gatewaytest.Echo, `{"a":1}`); again == id {
		t.Error("one approval permitted two tasks")
	}
}

// TestMCPTaskStarts: if the request that redeemed a task's approval has not started the call yet, the task is
// working, not failed.
func TestMCPTaskStarts(t *testing.T) {
	t.Parallel()
	var approved atomic.Bool
	claiming, claim := make(chan struct{}), make(chan struct{})
	d, all := startTaskReplicas(t, 2, func(*idempotency.Claim) {
		if approved.CompareAndSwap(true, false) {
			close(claiming)
			<-claim
		}
	})
	id := all[0].create(t, gatewaytest.Echo, `{"a":1}`)
	d.approve(t, id)
	approved.Store(true)
	var first sync.WaitGroup
	first.Go(func() { all[0].status(t, id) })
	check.Received(t, claiming, "the claim")
	if got := all[1].status(t, id); got != "working" {
		t.Errorf("got %q", got)
	}
	close(claim)
	check.Ended(t, &first, "the first call")
	all[1].completes(t, id)
	if n := calls(all); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// TestMCPTaskEnds: every end of a task is its final status.
func TestMCPTaskEnds(t *testing.T) {
	t.Parallel()
	d, all := startTaskReplicas(t, 2)
	approve := func(id string) { d.approve(t, id) }
	for name, c := range map[string]struct {
		tool   string
		do     func(id string)
		status string
		calls  int
	}{
		"denied": {tool: gatewaytest.Echo, status: "failed APPROVAL_DENIED", do: func(id string) {
			if _, err := d.Deny(t.Context(), "default", id, approvals.Answer{By: "eve"}); err != nil {
				t.Error(err)
			}
		}},
		"cancelled": {tool: gatewaytest.Echo, status: "cancelled", do: func(id string) {
			all[1].about(t, "tasks/cancel", id)
			if a, err := d.Get(t.Context(), "default", id); err != nil || a.State == approvals.Pending {
				t.Errorf("got %s %v", a.State, err)
			}
		}},
		"cancelled after its approval": {tool: gatewaytest.Echo, status: "cancelled", do: func(id string) {
			d.approve(t, id)
			all[1].about(t, "tasks/cancel", id)
		}},
		"cancelled after its end": {tool: gatewaytest.Echo, status: "completed", calls: 1, do: func(id string) {
			d.approve(t, id)
			all[1].about(t, "tasks/get", id)
			all[0].about(t, "tasks/cancel", id)
		}},
		"a tool's error": {tool: gatewaytest.Fail, status: "completed", calls: 1, do: approve},
		"a broken tool":  {tool: gatewaytest.Break, status: "failed BROKE", calls: 1, do: approve},
	} {
		before := calls(all)
		args, _ := json.Marshal(map[string]string{"a": name})
		id := all[0].create(t, c.tool, string(args))
		c.do(id)
		for _, f := range all {
			if got := f.status(t, id); got != c.status {
				t.Errorf("%s: %q", name, got)
			}
		}
		if n := calls(all) - before; n != c.calls {
			t.Errorf("%s: %d calls", name, n)
		}
	}
}

// TestMCPTaskRuns: the task of a long call is working, and the call outlives its requests.
func TestMCPTaskRuns(t *testing.T) {
	t.Parallel()
	d, all := startTaskReplicas(t, 2)
	id := all[0].create(t, gatewaytest.Block, `{}`)
	d.approve(t, id)
	if got := all[0].status(t, id); got != "working" {
		t.Errorf("got %q", got)
	}
	check.Received(t, all[0].capability.Blocked(), "the call")
	if got := all[1].status(t, id); got != "working" {
		t.Errorf("got %q", got)
	}
	all[0].capability.Release()
	all[1].completes(t, id)
	if n := calls(all); n != 1 {
		t.Errorf("%d calls", n)
	}
}

// TestMCPTaskCallers: only clients that declare tasks get them, and a task belongs to its caller.
func TestMCPTaskCallers(t *testing.T) {
	t.Parallel()
	d, all := startTaskReplicas(t, 1)
	f := all[0]
	id := f.create(t, gatewaytest.Echo, `{"a":1}`)
	lost := f.create(t, gatewaytest.Echo, `{"a":2}`)
	d.lost.Store(lost, nil)
	for name, c := range map[string]struct {
		a    taskAnswer
		code int
	}{
		"of another caller":           {f.about(t, "tasks/get", id, "X-User-Id", "mallory"), -32602},
		"of another agent":            {f.about(t, "tasks/get", id, "X-Agent-Id", "mallory"), -32602},
		"cancelled by another caller": {f.about(t, "tasks/cancel", id, "X-User-Id", "mallory"), -32602},
		"made up":                     {f.about(t, "tasks/get", noApproval), -32602},
		"without its approval":        {f.about(t, "tasks/get", lost), -32602},
		"too long":                    {f.about(t, "tasks/update", strings.Repeat("x", 4000)), -32602},
		"another header":              {f.rpc(t, "tasks/get", "other", taskMeta+`,"taskId":"`+id+`"`), -32020},
		"not declared":                {f.rpc(t, "tasks/get", id, newestMeta+`,"taskId":"`+id+`"`), -32021},
		"in another revision": {f.rpc(t, "tasks/get", id, `"taskId":"`+id+`"`, "Mcp-Protocol-Version",
			"2025-11-25"), -32601},
	} {
		if c.a.Error.Code != c.code || (c.code == -32602) != (c.a.Error.Data.Reason == "TASK_UNKNOWN") {
			t.Errorf("%s: %+v", name, c.a)
		}
		required := c.a.Error.Data.RequiredCapabilities.Extensions
		if _, named := required["io.modelcontextprotocol/tasks"]; named != (c.code == -32021) {
			t.Errorf("%s: %+v", name, c.a)
		}
	}
	if got := f.status(t, id); got != "working" {
		t.Errorf("got %q", got)
	}
	if a := f.about(t, "tasks/update", id); a.Result.ResultType != "complete" {
		t.Errorf("got %+v", a)
	}
	for _, has := range []bool{true, false} {
		if !has {
			f = startMCP(t)
		}
		_, text := f.post(t, `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{`+taskMeta+`}}`,
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "server/discover")
		if strings.Contains(text, "io.modelcontextprotocol/tasks") != has {
			t.Errorf("got %s", text)
		}
	}
}
