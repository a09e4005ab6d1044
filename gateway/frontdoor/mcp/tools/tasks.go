package tools

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/capgate/capgate/gateway/frontdoor/mcp"
	"github.com/capgate/capgate/gateway/frontdoor/web"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/idempotency"
	"github.com/capgate/capgate/policy/approvals"
)

// TaskApprovals gives access to the approvals that MCP calls wait for. approvals.Service implements it.
type TaskApprovals interface {
	Get(ctx context.Context, tenant, id string) (approvals.Approval, error)
	// Withdraw ends a pending approval.
	Withdraw(ctx context.Context, tenant, id string) error
}

// tasks stores the calls of tasks in the store of responses for idempotency keys. It implements mcp.Tasks.
type tasks struct {
	approvals TaskApprovals
	stored    *idempotency.Service
}

// newTasks returns the tasks of callers; nil means calls and responses cannot be stored.
func newTasks(approvals TaskApprovals, stored *idempotency.Service) mcp.Tasks {
	if approvals == nil || stored == nil || !stored.On() {
		return nil
	}
	return &tasks{approvals, stored}
}

// Prefixes of the keys of tasks. They start with a character that clients' keys cannot contain.
const (
	taskCallKey      = "\x00mcp task "
	taskCancelledKey = "\x00mcp task cancelled "
)

// taskStart is the maximum time between the redemption of an approval and the claim of the call's key: that of a wait
// in the queue.
const taskStart = time.Minute

// request returns the key of a task's stored call, for the caller: the same credential, user and agent.
func (t *tasks) request(r *http.Request, key, task string) *idempotency.Request {
	caller := &web.Of(r).Identity
	of := &idempotency.Request{Tenant: caller.Tenant, User: caller.User, Agent: caller.Agent,
		Key:    key + task + "\x00" + caller.Key,
		Method: "mcp task", UID: caller.Settings.UID()}
	return of
}

// Keep implements mcp.Tasks.
func (t *tasks) Keep(r *http.Request, task string, text []byte) bool {
	return t.stored.Keep(r.Context(), t.request(r, taskCallKey, task), text) == nil
}

// Kept implements mcp.Tasks.
func (t *tasks) Kept(r *http.Request, task string) ([]byte, error) {
	text, refusal := t.stored.Kept(r.Context(), t.request(r, taskCallKey, task))
	if refusal != nil {
		return nil, status.Answer(refusal).Err()
	}
	return text, nil
}

// State implements mcp.Tasks.
func (t *tasks) State(r *http.Request, task string) (string, error) {
	cancelled, refusal := t.stored.Kept(r.Context(), t.request(r, taskCancelledKey, task))
	switch {
	case refusal != nil:
		return "", status.Answer(refusal).Err()
	case cancelled != nil:
		return mcp.TaskCancelled, nil
	}
	a, err := t.approvals.Get(r.Context(), web.Of(r).Identity.Tenant, task)
	if errors.As(err, &refusal) && refusal.Kind == call.NotFound {
		return "", nil
	}
	if err != nil {
		return "", t.refusal(err)
	}
	if a.State == approvals.Used && time.Since(a.Changed) < taskStart {
		return mcp.TaskStarts, nil
	}
	return a.State.String(), nil
}

// Cancel implements mcp.Tasks. It first records the cancellation, so that an approved call does not run.
func (t *tasks) Cancel(r *http.Request, task string) error {
	tenant := web.Of(r).Identity.Tenant
	a, err := t.approvals.Get(r.Context(), tenant, task)
	if err != nil {
		return t.refusal(err)
	}
	if !a.State.Open() {
		return nil
	}
	if refusal := t.stored.Keep(r.Context(), t.request(r, taskCancelledKey, task), []byte("1")); refusal != nil {
		return status.Answer(refusal).Err()
	}
	if err := t.approvals.Withdraw(r.Context(), tenant, task); err != nil {
		return t.refusal(err)
	}
	return nil
}

// refusal returns an error of approvals as a gRPC status.
func (t *tasks) refusal(err error) error {
	var refusal *call.Refusal
	if errors.As(err, &refusal) {
		return status.Answer(refusal).Err()
	}
	return err
}
