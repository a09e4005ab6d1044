package mcp_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
)

// hostileTask is a task, and the end of its call.
type hostileTask struct {
	created string // empty: taskWorking
	state   string
	result  string // of tasks/result
	code    codes.Code
	want    string // in the error; the tool's own if code is OK
}

// hostileTasks returns tasks by name, in the era of their server.
func hostileTasks(old bool) map[string]hostileTask {
	const invalid, unknown = "is not valid for ", "does not know the task"
	gone := `{"code":-32602,"message":"Task not found"}`
	all := map[string]hostileTask{
		"an id of 1025 bytes": {`"status":"working","taskId":"` + strings.Repeat("x", 1025) + `"`, "", "",
			codes.Internal, "the id of"},
		"an id with a newline": {`"status":"working","taskId":"a\nb"`, "", "", codes.Internal, "the id of"},
		"no id":                {`"status":"working"`, "", "", codes.Internal, "the id of"},
		"an id of a number":    {`"status":"working","taskId":1`, "", "", codes.Internal, invalid},
		"an unknown status":    {"", `{` + taskIs + `,"status":"paused"}`, "", codes.Internal, invalid},
		"no status":            {"", `{` + taskIs + `}`, "", codes.Internal, invalid},
		"another task":         {"", strings.Replace(taskDone, "t 1", "t 2", 1), "", codes.Internal, invalid},
		"no object":            {"", `[]`, "", codes.Internal, invalid},
		"an unknown task":      {"", gone, "", codes.Unavailable, unknown},
		"a cancelled task": {"", `{` + taskIs + `,"status":"cancelled","statusMessage":"too late"}`, "", codes.OK,
			"has cancelled the task of the call: too late"},
		"no answers": {"", "503", "", codes.Unavailable, "does not report on the task"},
		"no path":    {"", "404", "", codes.Unavailable, "does not report on the task"},
	}
	if old {
		for name, result := range map[string]string{"a result of another type": `{"content":7}`,
			"a task as its result":              `{"resultType":"task","taskId":"t 2","status":"working"}`,
			"a request for input as its result": `{"resultType":"input_required","inputRequests":{}}`} {
			all[name] = hostileTask{"", taskDone, result, codes.Internal, invalid}
		}
		all["an error of the call"] = hostileTask{"", `{` + taskIs + `,"status":"failed"}`,
			`{"code":-32602,"message":"no such city"}`, codes.InvalidArgument, "no such city"}
		all["a result that is gone"] = hostileTask{"", taskDone, gone, codes.Unavailable, "does not report on the task"}
		return all
	}
	for name, result := range map[string]string{"a result of another type": `"result":{"content":7}`,
		"a result of text": `"result":"x"`, "no result": `"x":1`, "an array as its result": `"result":[]`,
		"a task as its result":              `"result":{"resultType":"task","taskId":"t 2","status":"working"}`,
		"a request for input as its result": `"result":{"resultType":"input_required","inputRequests":{}}`} {
		all[name] = hostileTask{"", `{` + taskIs + `,"status":"completed",` + result + `}`, "", codes.Internal, invalid}
	}
	all["an error of the call"] = hostileTask{"",
		`{` + taskIs + `,"status":"failed","error":{"code":-32602,"message":"no such city"}}`, "",
		codes.InvalidArgument, "no such city"}
	all["no error"] = hostileTask{"", `{` + taskIs + `,"status":"failed"}`, "", codes.Internal, invalid}
	all["questions that no client answers"] = hostileTask{"", `{` + taskIs + `,"status":"input_required",` +
		`"inputRequests":{"a":{"method":"roots/list"}}}`, "", codes.OK, "requests input"}
	all["questions of another type"] = hostileTask{"", `{` + taskIs + `,"status":"input_required",` +
		`"inputRequests":7}`, "", codes.Internal, invalid}
	return all
}

// TestHostileTasks: whatever a server reports on a task, its call ends with a clear error, and no second task is
// created.
func TestHostileTasks(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		for name, c := range hostileTasks(old) {
			t.Run(era+" "+name, func(t *testing.T) {
				t.Parallel()
				s := newTasked(t, old, c.state)
				if s.result = c.result; c.created != "" {
					s.created = c.created
				}
				w := start(t, nil, s.URL)
				reply, err := w.Invoke(within(t), request("echo", `{}`))
				text := reply.GetError()
				if err != nil {
					text = err.Error()
				}
				if status.Code(err) != c.code || !strings.Contains(text, c.want) {
					t.Errorf("%v, %q; want %v, %q", err, text, c.code, c.want)
				}
				s.want(t, 1)
				w.wantResult(t, request("structured", `{}`), `{}`)
			})
		}
	}
}

// TestFloodsOfTaskStatuses: a server that sends notifications of a task without end, in place of its state, is an error
// of the call.
func TestFloodsOfTaskStatuses(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := newTasked(t, old, taskDone)
			s.hostile("tasks/get", "", endless("text/event-stream", "",
				`data: {"jsonrpc":"2.0","method":"notifications/tasks/status","params":{`+taskWorking+"}}\n\n"))
			w := start(t, func(f *upstream.Fleet, _ *gatewaytest.Fleet) { settings(f).MaxMessage = maxMessage }, s.URL)
			if _, err := w.Invoke(within(t), request("echo", `{}`)); status.Code(err) != codes.Internal ||
				!strings.Contains(err.Error(), "larger than") {
				t.Error(err)
			}
			check.Received(t, s.cancelled, "tasks/cancel")
			s.want(t, 1)
		})
	}
}
