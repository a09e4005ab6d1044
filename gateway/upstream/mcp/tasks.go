package mcp

import (
	"context"
	"encoding/json"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/lib/plainjson"
	"github.com/capgate/capgate/internal/lib/strictjson"
	"github.com/capgate/capgate/internal/telemetry/tracing"
)

// Tasks in the two eras. In 2025-11-25, the client makes a call a task, and must do so for the tools that require it.
// In 2026-07-28, a server makes tasks of calls as it likes, for clients that declare the extension.
const (
	tasksExtension = "io.modelcontextprotocol/tasks"
	relatedTask    = "io.modelcontextprotocol/related-task" // member of _meta

	getTask    = "tasks/get"
	updateTask = "tasks/update" // since 2026-07-28
	cancelTask = "tasks/cancel"
	taskResult = "tasks/result" // before 2026-07-28

	taskToolsAge      = 5 * time.Minute // maximum age of the list of tools that require tasks
	taskToolsPatience = 5 * time.Second // of a call for that list
	taskToolsAgain    = time.Minute     // until it is listed again after a failure
	taskKept          = time.Minute     // requested lifetime of a task after the deadline of its call
)

// taskParams holds the params of a request about a task.
type taskParams struct {
	sdk.ParamsBase
	ID      string          `json:"taskId"`
	Answers json.RawMessage `json:"inputResponses,omitempty"`
}

// taskAnswer is the SDK's type for a response about a task. It has no members, because the exchange keeps the response.
type taskAnswer struct{ sdk.ResultBase }

// taskCall holds the params of a call that is to be a task.
type taskCall struct {
	*sdk.CallToolParams
	Task struct {
		TTL int64 `json:"ttl,omitempty"` // in ms
	} `json:"task"`
}

// addTasks adds tasks to a client.
func addTasks(c *sdk.Client) {
	for _, method := range [...]string{getTask, updateTask, cancelTask, taskResult} {
		// Its only error is for a method of MCP itself.
		_ = sdk.AddSendingCustomMethod[*taskParams, *taskAnswer](c, method)
	}
	c.AddSendingMiddleware(asTask)
}

// asTask adds the member that makes a call a task, if the exchange requires it.
func asTask(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		ex, _ := ctx.Value(exchangeKey{}).(*exchange)
		p, isCall := req.GetParams().(*sdk.CallToolParams)
		session, isClient := req.GetSession().(*sdk.ClientSession)
		if ex != nil && ex.tasked && isCall && isClient {
			of := &taskCall{CallToolParams: p}
			if deadline, ok := ctx.Deadline(); ok {
				of.Task.TTL = (time.Until(deadline) + taskKept).Milliseconds()
			}
			req = &sdk.ClientRequest[*taskCall]{Session: session, Params: of}
		}
		return next(ctx, method, req)
	}
}

// sendTask sends a request about a task. Its error counts only if there is no response.
func sendTask(ctx context.Context, cs *sdk.ClientSession, method string, t *task, trace string) error {
	p := &taskParams{ID: t.id}
	if method == updateTask {
		p.Answers = t.answers
	}
	if trace != "" {
		p.Meta = sdk.Meta{tracing.Traceparent: trace}
	}
	_, err := sdk.CallCustomMethod[*taskParams, *taskAnswer](ctx, cs, method, p)
	return err
}

// taskTools holds the tools of a server whose calls must be tasks.
type taskTools struct {
	names  map[string]bool
	listed time.Time
}

func (t *taskTools) isFresh() bool { return t != nil && time.Since(t.listed) < taskToolsAge }

// declaresTasks reports whether a server declares tasks for calls of tools, see declaring.
func declaresTasks(cs *sdk.ClientSession) bool {
	c := cs.InitializeResult().Capabilities
	return c != nil && c.Extensions[tasksExtension] != nil
}

// taskToolsIn returns the tools in a list whose calls must be tasks.
func taskToolsIn(cs *sdk.ClientSession, list []json.RawMessage) *taskTools {
	t := &taskTools{names: map[string]bool{}, listed: time.Now()}
	if !declaresTasks(cs) {
		return t
	}
	for _, raw := range list {
		var of struct {
			Name      string `json:"name"`
			Execution struct {
				Support string `json:"taskSupport"`
			} `json:"execution"`
		}
		if strictjson.Unmarshal(raw, &of) == nil && of.Execution.Support == "required" {
			t.names[of.Name] = true
		}
	}
	return t
}

// mustBeTask reports whether the call of a tool must be a task in a session. Another replica may have listed the tools,
// so this one lists them if it does not know them, or not since long. If that fails, the last list counts.
func (v *server) mustBeTask(ctx context.Context, o *opened, tool string) (bool, error) {
	if tool == "" || o.InitializeResult().ProtocolVersion >= modern || !declaresTasks(o.ClientSession) {
		return false, nil
	}
	if known := v.taskTools.Load(); known.isFresh() {
		return known.names[tool], nil
	}
	select {
	case v.listing <- struct{}{}:
	case <-ctx.Done():
		return false, ctx.Err()
	}
	defer func() { <-v.listing }()
	if last := v.taskTools.Load(); !last.isFresh() {
		// The list is for other callers as well.
		short, cancel := context.WithTimeout(context.WithoutCancel(upstream.WithoutCaller(ctx)), taskToolsPatience)
		defer cancel()
		if _, err := v.tools(short); err != nil { // a server itself rejects a call that must be a task
			kept := &taskTools{listed: time.Now().Add(taskToolsAgain - taskToolsAge)}
			if last != nil {
				kept.names = last.names
			}
			v.taskTools.Store(kept)
		}
	}
	return v.taskTools.Load().names[tool], ctx.Err()
}

// declaring returns a response in which a server that declares tasks for calls of tools as in 2025-11-25 also declares
// the extension. The SDK has no member for the former, and replicas share what it decodes.
func (m *message) declaring(data []byte) []byte {
	var of struct {
		Capabilities struct {
			Tasks struct {
				Requests struct {
					Tools struct {
						Call map[string]json.RawMessage `json:"call"`
					} `json:"tools"`
				} `json:"requests"`
			} `json:"tasks"`
		} `json:"capabilities"`
	}
	if len(m.Result) == 0 || strictjson.Unmarshal(m.Result, &of) != nil ||
		of.Capabilities.Tasks.Requests.Tools.Call == nil {
		return data
	}
	var result, capabilities, extensions map[string]json.RawMessage
	if json.Unmarshal(m.Result, &result) != nil || json.Unmarshal(result["capabilities"], &capabilities) != nil ||
		json.Unmarshal(orNull(capabilities["extensions"]), &extensions) != nil {
		return data
	}
	if extensions == nil {
		extensions = map[string]json.RawMessage{}
	}
	extensions[tasksExtension] = json.RawMessage("{}")
	var err error
	for _, member := range [...]struct {
		of   map[string]json.RawMessage
		name string
		from any
	}{{capabilities, "extensions", extensions}, {result, "capabilities", capabilities}} {
		if member.of[member.name], err = plainjson.Marshal(member.from); err != nil {
			return data
		}
	}
	text, err := plainjson.Marshal(result)
	if err != nil {
		return data
	}
	if text, err = plainjson.Marshal(wire{Version: "2.0", ID: m.ID, Result: text}); err != nil {
		return data
	}
	return text
}
