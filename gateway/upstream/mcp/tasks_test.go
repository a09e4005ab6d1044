package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/upstream"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/router"
)

// tasked is a server whose tool echo runs as a task. In the earlier era it must.
type tasked struct {
	*remote
	old       bool
	created   string               // the task, as the response to its call has it
	states    []string             // answers to tasks/get, the last one for all further ones
	result    string               // answer to tasks/result
	update    func(answers string) // called for tasks/update; optional
	cancelled chan string          // tasks of tasks/cancel
	silent    bool                 // does not respond to tasks/cancel

	mu      sync.Mutex
	creates int
	polls   int
	names   map[string]bool // values of Mcp-Name in requests about the task
}

// Answers about the task "t 1".
const (
	taskIs      = `"taskId":"t 1","createdAt":"2026-01-01T00:00:00Z","lastUpdatedAt":"2026-01-01T00:00:00Z"`
	taskWorking = taskIs + `,"status":"working","statusMessage":"step one","pollInterval":1,"pollIntervalMs":1`
	taskDone    = `{` + taskIs + `,"status":"completed","result":` + taskResult + `}`
	taskResult  = `{"content":[{"type":"text","text":"done"}],"_meta":{"io.modelcontextprotocol/related-task":` +
		`{"taskId":"t 1"}}}`
)

func newTasked(t *testing.T, old bool, states ...string) *tasked {
	t.Helper()
	s := &tasked{remote: newRemote(t, old), old: old, created: taskWorking, states: states, result: taskResult,
		cancelled: make(chan string, 16), names: map[string]bool{}}
	if old {
		s.rewrite(func(text string) string {
			text = strings.Replace(text, `"capabilities":{`,
				`"capabilities":{"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}},`, 1)
			return strings.Replace(text, `"name":"echo"`, `"name":"echo","execution":{"taskSupport":"required"}`, 1)
		})
	}
	s.handle(s.answer)
	return s
}

// answer answers requests about tasks. A call of echo that must be a task, and is not, reaches the server of the SDK.
func (s *tasked) answer(w http.ResponseWriter, q *http.Request, body string) bool {
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct {
			Name, TaskID   string
			Task           *struct{ TTL int }
			InputResponses json.RawMessage
		}
	}
	_ = json.Unmarshal([]byte(body), &m)
	about := strings.HasPrefix(m.Method, "tasks/")
	s.mu.Lock()
	defer s.mu.Unlock()
	if about {
		s.names[q.Header.Get("Mcp-Name")] = true
	}
	text := ""
	switch {
	case m.Method == "tools/call" && m.Params.Name == "echo" &&
		(!s.old || m.Params.Task != nil && m.Params.Task.TTL > 0):
		s.creates++
		if text = `{"resultType":"task",` + s.created + `}`; s.old {
			text = `{"task":{` + s.created + `}}`
		}
	case m.Method == "tasks/get":
		text = s.states[min(s.polls, len(s.states)-1)]
		s.polls++
	case m.Method == "tasks/result" && s.old:
		text = s.result
	case m.Method == "tasks/update" && !s.old:
		text = `{"resultType":"complete"}`
		s.update(string(m.Params.InputResponses))
	case m.Method == "tasks/cancel":
		text = `{"resultType":"complete"}`
		s.cancelled <- m.Params.TaskID
		if s.silent {
			s.mu.Unlock()
			<-q.Context().Done()
			s.mu.Lock()
			return true
		}
	default:
		return false
	}
	code := http.StatusOK
	switch text {
	case "404":
		code = http.StatusNotFound
	case "503":
		code = http.StatusServiceUnavailable
	}
	member := "result"
	if strings.HasPrefix(text, `{"code":`) {
		member = "error"
	}
	says(code, "application/json", `{"jsonrpc":"2.0","id":ID,"`+member+`":`+text+`}`)(w, q, string(m.ID))
	return true
}

// want checks the calls that the server received.
func (s *tasked) want(t *testing.T, creates int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.creates != creates {
		t.Errorf("%d tasks were created, not %d", s.creates, creates)
	}
	if want := map[bool]string{false: "t 1"}[s.old]; len(s.names) > 1 || len(s.names) == 1 && !s.names[want] {
		t.Errorf("requests about the task have the names %v", s.names)
	}
}

// TestTasksOfServers: a call that its server makes a task, or whose tool requires one, has the result of the task. Its
// status messages are progress.
func TestTasksOfServers(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := newTasked(t, old, `{`+taskWorking+`}`, strings.Replace(`{`+taskWorking+`}`, "one", "two", 1), taskDone)
			w := start(t, nil, s.URL)
			w.wantResult(t, request("echo", `{}`), `"done"`)
			s.mu.Lock()
			s.polls = 0
			s.mu.Unlock()
			stream, err := w.StreamInvoke(within(t), request("echo", `{}`))
			check.Must(t, err)
			text := ""
			for {
				c, err := stream.Recv()
				if errors.Is(err, io.EOF) {
					break
				}
				check.Must(t, err)
				text += string(c.GetData())
			}
			const want = `{"progress":1,"message":"step one"}` + "\n" + `{"progress":2,"message":"step two"}` + "\n" +
				`"done"`
			if text != want {
				t.Errorf("the stream is %s", text)
			}
			s.want(t, 2)
			w.wantResult(t, request("structured", `{"a":1}`), `{"a":1}`)
			if len(s.cancelled) > 0 {
				t.Error("a task that has ended is cancelled")
			}
		})
	}
}

// TestTasksAreCancelled: the end of a call before that of its task cancels the task: when the caller cancels, and at
// the deadline, even if the server does not respond.
func TestTasksAreCancelled(t *testing.T) {
	t.Parallel()
	for era, old := range eras {
		t.Run(era, func(t *testing.T) {
			t.Parallel()
			s := newTasked(t, old, `{`+taskWorking+`}`)
			w := start(t, nil, s.URL)
			ctx, cancel := context.WithCancel(within(t))
			stream, err := w.StreamInvoke(ctx, request("echo", `{}`))
			check.Must(t, err)
			_, err = stream.Recv() // the task is created
			check.Must(t, err)
			cancel()
			if id := check.Received(t, s.cancelled, "tasks/cancel"); id != "t 1" {
				t.Errorf("the task %q is cancelled", id)
			}
			s.mu.Lock()
			s.silent = true
			s.mu.Unlock()
			w = start(t, func(_ *upstream.Fleet, of *gatewaytest.Fleet) {
				of.Deadlines = router.Deadlines{Default: 3 * time.Second, Max: 3 * time.Second}
			}, s.URL)
			if _, err := w.Invoke(within(t), request("echo", `{}`)); status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("at the deadline: %v", err)
			}
			check.Received(t, s.cancelled, "tasks/cancel")
			s.want(t, 2)
		})
	}
}

// TestTasksAskClients: questions of a task reach the client of the call, at once or as a request for input, with which
// another replica continues the same task. A question that has an answer does not reach the client again.
func TestTasksAskClients(t *testing.T) {
	t.Parallel()
	const asks = `{` + taskIs + `,"status":"input_required","pollIntervalMs":1,"inputRequests":{"n":{"method":` +
		`"elicitation/create","params":{"message":"Name?","requestedSchema":{"type":"object","properties":{}}}}}}`
	prepare := func(t *testing.T) (s *tasked, answers chan string) {
		s, answers = newTasked(t, false, asks), make(chan string, 16)
		s.update = func(text string) {
			s.states, s.polls = []string{asks, taskDone}, 0 // the server has not processed it at once
			answers <- text
		}
		return s, answers
	}
	t.Run("2025-11-25", func(t *testing.T) {
		t.Parallel()
		s, answers := prepare(t)
		w := startAsking(t, s.remote, []string{"forms"})
		forms := 0
		client := w.connect(t, answering(func(string) { forms++ }), "2025-11-25")
		r, err := client.CallTool(within(t), &sdk.CallToolParams{Name: id + "__echo"})
		check.Must(t, err)
		if text := r.Content[0].(*sdk.TextContent).Text; text != "done" || r.IsError || forms != 1 || len(r.Meta) > 0 {
			t.Errorf("%q, %t, %d forms, %v", text, r.IsError, forms, r.Meta)
		}
		const want = `{"n":{"action":"accept","content":{"name":"Ann"}}}`
		if text := check.Received(t, answers, "the answer"); text != want {
			t.Errorf("the server received %s", text)
		}
		s.want(t, 1)
	})
	t.Run("2026-07-28", func(t *testing.T) {
		t.Parallel()
		s, answers := prepare(t)
		first := startAsking(t, s.remote, []string{"forms"})
		second := startAsking(t, s.remote, []string{"forms"})
		const call = `"name":"` + id + `__echo","arguments":{}`
		text := first.post(t, "", "", call)
		var of struct {
			Result struct{ RequestState string }
		}
		check.Must(t, json.Unmarshal([]byte(text), &of))
		if of.Result.RequestState == "" || !strings.Contains(text, `"n":{"method":"elicitation/create"`) {
			t.Fatalf("the result is %s", text)
		}
		text = second.post(t, "", "", call+`,"inputResponses":{"n":{"action":"decline"}},"requestState":"`+
			of.Result.RequestState+`"`)
		if !strings.Contains(text, `"done"`) {
			t.Errorf("the result is %s", text)
		}
		if text := check.Received(t, answers, "the answer"); text != `{"n":{"action":"decline"}}` {
			t.Errorf("the server received %s", text)
		}
		s.want(t, 1)
	})
}

// TestStatesOfServersAreNoTasks: a server cannot name another caller's task with the state of its request for input.
func TestStatesOfServersAreNoTasks(t *testing.T) {
	t.Parallel()
	r := newRemote(t, false)
	r.hostile("tools/call", `"name":"echo"`, says(200, "application/json", `{"jsonrpc":"2.0","id":ID,"result":`+
		`{"resultType":"input_required","requestState":"\u0000task t 2","inputRequests":{}}}`))
	w := startAsking(t, r, []string{"forms"})
	text := w.post(t, "", "", `"name":"`+id+`__echo","arguments":{}`)
	if !strings.Contains(text, "requestState is not valid") {
		t.Errorf("the result is %s", text)
	}
}

// TestReplicasMakeTasks: a replica that continues the session of another one makes calls tasks as well.
func TestReplicasMakeTasks(t *testing.T) {
	t.Parallel()
	s := newTasked(t, true, taskDone)
	redis := gatewaytest.StartRedis(t)
	for range 2 {
		w := replica(t, redis.Open(t).UpstreamSessions(), s.remote)
		for range 2 {
			req := request("echo", `{}`)
			req.SessionId = "a"
			w.wantResult(t, req, `"done"`)
		}
	}
	s.want(t, 4)
}

// TestToolsThatCannotBeListed: at a server that does not list its tools, calls are made as they are.
func TestToolsThatCannotBeListed(t *testing.T) {
	t.Parallel()
	s := newTasked(t, true, taskDone)
	var lists atomic.Int32
	s.hostile("tools/list", "", func(w http.ResponseWriter, q *http.Request, id string) {
		lists.Add(1)
		says(500, "text/plain", "no list")(w, q, id)
	})
	w := start(t, nil, s.URL)
	for range 3 {
		w.wantResult(t, request("structured", `{"a":1}`), `{"a":1}`)
		w.wantResult(t, request("echo", `{"text":"x"}`), `"x"`)
	}
	s.want(t, 0)
	if n := lists.Load(); n != 1 {
		t.Errorf("the tools were listed %d times", n)
	}
}

// TestListOfToolsOutlivesItsCall: a call that ends while the tools are listed for it does not end the listing. The next
// call uses its result.
func TestListOfToolsOutlivesItsCall(t *testing.T) {
	t.Parallel()
	s := newTasked(t, true, taskDone)
	next, listed := *s.handler.Load(), make(chan struct{})
	var lists atomic.Int32
	s.hostile("tools/list", "", func(w http.ResponseWriter, q *http.Request, _ string) {
		lists.Add(1)
		select {
		case <-listed:
			next.ServeHTTP(w, q)
		case <-q.Context().Done():
		}
	})
	w := start(t, nil, s.URL)
	for lists.Load() == 0 {
		ctx, cancel := context.WithTimeout(within(t), time.Second)
		if _, err := w.Invoke(ctx, request("echo", `{}`)); status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("at the deadline: %v", err)
		}
		cancel()
	}
	close(listed)
	w.wantResult(t, request("echo", `{}`), `"done"`)
	s.want(t, 1)
	if n := lists.Load(); n != 1 {
		t.Errorf("the tools were listed %d times", n)
	}
}
