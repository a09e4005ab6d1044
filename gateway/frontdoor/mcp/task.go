package mcp

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/gateway/frontdoor/problem"
	"github.com/capgate/capgate/gateway/frontdoor/request"
	"github.com/capgate/capgate/gateway/relay"
	"github.com/capgate/capgate/gateway/status"
	"github.com/capgate/capgate/internal/call"
	docpb "github.com/capgate/capgate/proto/selu/capability"
)

// tasksExtension is the id of the extension whose tasks are calls that need an approval (2026-07-28, Tasks).
const tasksExtension = "io.modelcontextprotocol/tasks"

const (
	taskPatience = 2 * time.Second // maximum wait of tasks/get for a running call
	taskPoll     = 2 * time.Second // polling interval of clients
	taskAfter    = time.Hour       // time for which an approval is known after its end
)

// Tasks stores the calls of tasks, so that any replica can make them. A task has the id of its approval. It belongs to
// the caller of the request that created it, and is unknown to others. Errors are gRPC statuses.
type Tasks interface {
	// Keep stores a call durably. It returns false if that is not possible.
	Keep(r *http.Request, task string, call []byte) bool
	// Kept returns the call stored by Keep; nil means none.
	Kept(r *http.Request, task string) ([]byte, error)
	// State returns the state of a task's approval, TaskCancelled, or empty if it is unknown or expired.
	State(r *http.Request, task string) (string, error)
	// Cancel cancels a task that has not run.
	Cancel(r *http.Request, task string) error
}

// States of a task's approval. In others it has ended, or the call has run.
const (
	TaskPending   = "pending"
	TaskApproved  = "approved"
	TaskStarts    = "starts" // a request has just redeemed the approval, and makes the call
	TaskCancelled = "cancelled"
)

// keptCall is the stored call of a task.
type keptCall struct {
	Request []byte    `json:"r"` // an InvokeRequest
	Keys    []string  `json:"k,omitempty"`
	Created time.Time `json:"c"`
	Expires time.Time `json:"e"` // end of the time for an answer
	Link    string    `json:"l,omitempty"`
	Toolset string    `json:"n,omitempty"` // it described an earlier version of the tool; empty means none
}

// task is a task in the form for clients.
type task struct {
	sdk.ResultBase
	ResultType string     `json:"resultType"`
	ID         string     `json:"taskId"`
	Status     string     `json:"status"`
	Message    string     `json:"statusMessage,omitempty"`
	Created    time.Time  `json:"createdAt"`
	Updated    time.Time  `json:"lastUpdatedAt"`
	TTL        int64      `json:"ttlMs"`
	Poll       int64      `json:"pollIntervalMs"`
	Result     sdk.Result `json:"result,omitempty"`
	Error      *rpcError  `json:"error,omitempty"`
}

// takesTasks reports whether the client of a request accepts a task as result.
func (h *Handler) takesTasks(x *exchange) bool {
	return x.read.meta.tasks && h.cfg.Tasks != nil && x.read.isStateless()
}

// createTask returns the task of a call that waits for its approval; nil means that it cannot be a task.
func (h *Handler) createTask(i *invocation, p pending) sdk.Result {
	request, err := proto.Marshal(i.req)
	if err != nil {
		return nil
	}
	keys := i.keys
	if len(keys) == 0 { // callers of a tenant share keys, so this one must not be guessable
		keys = []string{"mcp-task-" + rand.Text()}
	}
	kept := keptCall{Request: request, Keys: keys, Created: time.Now().UTC(), Link: p.link, Toolset: i.changed}
	if kept.Expires, err = time.Parse(time.RFC3339, p.expires); err != nil {
		return nil
	}
	text, err := json.Marshal(kept)
	if err != nil || !h.cfg.Tasks.Keep(i.exchange.r, p.id, text) {
		return nil
	}
	t := kept.task(p.id)
	t.ResultType = "task"
	return t
}

// task returns the task of a call that waits for its approval.
func (k *keptCall) task(id string) *task {
	t := &task{ResultType: "complete", ID: id, Status: "working", Message: "A person has to approve this call.",
		Created: k.Created, Updated: k.Created, Poll: taskPoll.Milliseconds(),
		TTL: k.Expires.Add(taskAfter).Sub(k.Created).Milliseconds()}
	if k.Link != "" {
		t.Message += " It can be answered at " + k.Link + " ."
	}
	return t
}

// taskParams holds the params of requests about a task.
type taskParams struct {
	sdk.ParamsBase
	ID string `json:"taskId"`
}

// taskDone acknowledges a request about a task.
type taskDone struct {
	sdk.ResultBase
	ResultType string `json:"resultType"`
}

// taskMethods returns the methods of the extension.
func taskMethods() []string { return []string{"tasks/get", "tasks/update", "tasks/cancel"} }

// addTasks adds the methods of the extension to a server.
func (h *Handler) addTasks(server *sdk.Server) {
	for _, method := range taskMethods() {
		// Its only error is for a method of MCP itself.
		_ = sdk.AddReceivingCustomMethod(server, method, func(ctx context.Context, _ *sdk.ServerSession,
			p *taskParams) (sdk.Result, error) {
			result, err := h.aboutTask(ctx, method, p)
			return encoded(ctx, result, err)
		})
	}
}

// aboutTask serves a request about a task of its caller.
func (h *Handler) aboutTask(ctx context.Context, method string, p *taskParams) (sdk.Result, error) {
	x := exchangeOf(ctx)
	kept, err := h.keptCall(x, p)
	if err != nil {
		return nil, err
	}
	switch method {
	case "tasks/cancel":
		if err := h.cfg.Tasks.Cancel(x.r, p.ID); err != nil {
			return nil, err
		}
	case "tasks/get":
		return h.getTask(ctx, x, p.ID, kept)
	}
	return &taskDone{ResultType: "complete"}, nil // tasks request no input
}

// keptCall returns the stored call of a task.
func (h *Handler) keptCall(x *exchange, p *taskParams) (*keptCall, error) {
	if p == nil || !h.takesTasks(x) {
		return nil, refused(http.StatusBadRequest, sdk.CodeMissingRequiredClientCapabilities, "MCP_CAPABILITY_MISSING",
			"tasks are only for clients that declare the extension "+tasksExtension+" in this request")
	}
	text, err := []byte(nil), error(nil)
	if len(p.ID) <= maxName {
		text, err = h.cfg.Tasks.Kept(x.r, p.ID)
	}
	var kept keptCall
	switch {
	case err != nil:
		return nil, err
	case text == nil || json.Unmarshal(text, &kept) != nil:
		return nil, unknownTask()
	}
	return &kept, nil
}

func unknownTask() error {
	return refused(http.StatusBadRequest, jsonrpc.CodeInvalidParams, "TASK_UNKNOWN",
		"there is no such task of this caller, or it has expired")
}

// getTask returns a task. If its call is approved, it is made: once, because its approval can be redeemed once, and
// its response is stored under a key of the task. A later tasks/get returns that response.
func (h *Handler) getTask(ctx context.Context, x *exchange, id string, kept *keptCall) (sdk.Result, error) {
	t := kept.task(id)
	state, err := h.cfg.Tasks.State(x.r, id)
	switch {
	case err != nil:
		return nil, err
	case state == "":
		return nil, unknownTask()
	case state == TaskPending:
		return t, nil
	case state == TaskCancelled:
		t.Status, t.Message = "cancelled", ""
		return t, nil
	}
	i, err := h.repeat(x, kept)
	if err != nil {
		return nil, err
	}
	t.Message = ""
	reply, running, err := h.patiently(ctx, i, id)
	if running || status.InfoOf(err).GetReason() == "APPROVAL_PENDING" {
		return t, nil
	}
	if mayComeAgain(err) {
		return nil, err
	}
	// Another request makes the call, or the approval was redeemed otherwise.
	used := status.InfoOf(err).GetReason() == "APPROVAL_USED"
	result, err := h.answerOf(i, reply, err)
	t.Updated = time.Now().UTC()
	if err == nil {
		t.Status, t.Result = "completed", result
		return t, nil
	}
	return h.failedTask(x, t, err, used)
}

// failedTask returns a task whose call was refused, or an error if it may still run. used is true if its approval was
// redeemed.
func (h *Handler) failedTask(x *exchange, t *task, cause error, used bool) (sdk.Result, error) {
	rpc := rpcOf(x.r, cause)
	switch state, err := h.cfg.Tasks.State(x.r, t.ID); {
	case used && (state == TaskStarts || state == TaskApproved): // released if the other request has ended
		return t, nil
	case err != nil || state == TaskApproved || state == TaskPending:
		return nil, rpc
	}
	t.Status, t.Message, t.Error = "failed", rpc.Message, &rpcError{rpc.Code, rpc.Message, rpc.Data}
	return t, nil
}

// mayComeAgain reports whether a call was refused temporarily. Its approval may still count as redeemed then.
func mayComeAgain(err error) bool {
	code := grpcstatus.Code(err)
	return status.InfoOf(err) != nil && (code == codes.Unavailable || code == codes.ResourceExhausted)
}

// repeat returns the call of a task for a request about the task.
func (h *Handler) repeat(x *exchange, kept *keptCall) (*invocation, error) {
	i := &invocation{exchange: x, stateless: true, req: new(docpb.InvokeRequest), changed: kept.Toolset}
	if err := proto.Unmarshal(kept.Request, i.req); err != nil {
		return nil, unknownTask()
	}
	i.results = h.cfg.Catalog.Results(i.req.GetCapabilityId(), i.req.GetToolName())
	err := i.readFields(x.r.Header, &meta{texts: []relay.Field{ // those of the task
		{Name: metaSession, Value: i.req.GetSessionId()}, {Name: metaThread, Value: i.req.GetThreadId()},
		{Name: metaIdempotency},
	}})
	i.keys = slices.Clone(kept.Keys)
	return i, err
}

// patiently makes the call of a task. If that takes long, it returns while the call continues.
func (h *Handler) patiently(ctx context.Context, i *invocation, id string) (reply *docpb.InvokeResponse, running bool,
	err error) {
	ctx, cancel := context.WithCancel(request.WithCall(ctx, request.Call{IdempotencyKeys: i.keys,
		Asking: call.Asking{Toolset: i.changed}}))
	defer cancel()
	patience := time.AfterFunc(taskPatience, cancel) // not a deadline, which would also apply to the call
	problem.Called(ctx)
	i.approvedBy(id)
	i.declareApps()
	reply, err = h.unary(ctx, i)
	return reply, !patience.Stop() && grpcstatus.Code(err) == codes.Canceled, err
}
