package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	enginerest "github.com/capgate/capgate/gateway/engine/rest"
	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/testkit/resttest"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

const enginePath = "/v1/engines/engine-1"

// engine is an engine with scripted answers, which records its requests.
type engine struct {
	openparallaxv1.UnimplementedClientServiceServer
	says     func(*openparallaxv1.ClientMessageRequest, grpc.ServerStreamingServer[openparallaxv1.PipelineEvent]) error
	sessions []*openparallaxv1.SessionInfo
	history  []*openparallaxv1.ChatMessage
	fails    error

	mu    sync.Mutex
	asked []any
	md    metadata.MD
}

func (e *engine) see(ctx context.Context, req any) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = append(e.asked, req)
	e.md, _ = metadata.FromIncomingContext(ctx)
	return e.fails
}

// last returns the last request.
func (e *engine) last() (req any, calls int, md metadata.MD) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n := len(e.asked); n > 0 {
		return e.asked[n-1], n, e.md
	}
	return nil, 0, nil
}

func (e *engine) SendMessage(req *openparallaxv1.ClientMessageRequest,
	stream grpc.ServerStreamingServer[openparallaxv1.PipelineEvent]) error {
	if err := e.see(stream.Context(), req); err != nil || e.says == nil {
		return err
	}
	return e.says(req, stream)
}

func (e *engine) ResolveApproval(ctx context.Context,
	req *openparallaxv1.ApprovalResponse) (*openparallaxv1.ApprovalAck, error) {
	return &openparallaxv1.ApprovalAck{Received: true}, e.see(ctx, req)
}

func (e *engine) GetStatus(ctx context.Context, req *openparallaxv1.StatusRequest) (*openparallaxv1.StatusResponse,
	error) {
	return &openparallaxv1.StatusResponse{AgentName: "Atlas", Model: "m", ShieldConnected: true, ShieldMaxTier: 3,
		UptimeSeconds: 90, SessionCount: 2, ActionsToday: 4}, e.see(ctx, req)
}

func (e *engine) ListSessions(ctx context.Context,
	req *openparallaxv1.ListSessionsRequest) (*openparallaxv1.ListSessionsResponse, error) {
	err := e.see(ctx, req)
	e.mu.Lock()
	defer e.mu.Unlock()
	return &openparallaxv1.ListSessionsResponse{Sessions: e.sessions}, err
}

func (e *engine) GetHistory(ctx context.Context,
	req *openparallaxv1.GetHistoryRequest) (*openparallaxv1.GetHistoryResponse, error) {
	return &openparallaxv1.GetHistoryResponse{Messages: e.history}, e.see(ctx, req)
}

func (e *engine) door(t *testing.T, cfg rest.Config) func(method, path, body string, header ...string) resttest.Answer {
	t.Helper()
	web := engineDoor(t, func(g *grpc.Server) { openparallaxv1.RegisterClientServiceServer(g, e) }, cfg)
	return func(method, path, body string, header ...string) resttest.Answer {
		t.Helper()
		return resttest.Send(t, web, method, enginePath+path, body, header...)
	}
}

func TestEngineStatus(t *testing.T) {
	t.Parallel()
	e := new(engine)
	ask := e.door(t, rest.Config{})
	got := ask("GET", "/status", "", "X-Capability-Id", "another", "X-Session-Modes", "seed", "X-Request-Id", "r")
	const want = `{"agent_name":"Atlas","model":"m","shield_connected":true,"shield_max_tier":3,"uptime_seconds":90,"session_count":2,"actions_today":4}` + "\n"
	if got.Status != 200 || got.Body != want || got.Header.Get("ETag") == "" {
		t.Errorf("%d %s %v", got.Status, got.Body, got.Header)
	}
	if _, _, md := e.last(); fmt.Sprint(md.Get("x-capability-id"), md.Get("x-session-modes"),
		md.Get("x-request-id")) != "[engine-1] [source] [r]" {
		t.Errorf("the engine got %v", md)
	}
	if again := ask("GET", "/status", "", "If-None-Match", got.Header.Get("ETag")); again.Status != 304 {
		t.Errorf("%d %s", again.Status, again.Body)
	}
}

// TestEnginesHavePages, although an engine answers with all at once.
func TestEnginesHavePages(t *testing.T) {
	t.Parallel()
	e := new(engine)
	for i := range 7 {
		e.sessions = append(e.sessions, &openparallaxv1.SessionInfo{Id: fmt.Sprint("s", i),
			Mode: openparallaxv1.SessionMode(i), CreatedAt: int64(i), UpdatedAt: math.MaxInt64, MessageCount: 1})
		// without ids
		e.history = append(e.history, &openparallaxv1.ChatMessage{SessionId: "s 1", Role: "user",
			Content: fmt.Sprint("c", i)})
	}
	ask := e.door(t, rest.Config{})
	for path, want := range map[string]string{
		"/sessions": `[{"id":"s0","title":"","mode":"","message_count":1} {"id":"s1","title":"","mode":"NORMAL","create_time":"1970-01-01T00:00:01Z","message_count":1} ` +
			`{"id":"s2","title":"","mode":"OTR","create_time":"1970-01-01T00:00:02Z","message_count":1} {"id":"s3","title":"","mode":"HEARTBEAT","create_time":"1970-01-01T00:00:03Z","message_count":1} ` +
			`{"id":"s4","title":"","mode":"","create_time":"1970-01-01T00:00:04Z","message_count":1} {"id":"s5","title":"","mode":"","create_time":"1970-01-01T00:00:05Z","message_count":1} ` +
			`{"id":"s6","title":"","mode":"","create_time":"1970-01-01T00:00:06Z","message_count":1}]`,
		"/sessions/s%201/history": `[{"id":"","session_id":"s 1","role":"user","content":"c0"} {"id":"","session_id":"s 1","role":"user","content":"c1"} {"id":"","session_id":"s 1","role":"user","content":"c2"} ` +
			`{"id":"","session_id":"s 1","role":"user","content":"c3"} {"id":"","session_id":"s 1","role":"user","content":"c4"} {"id":"","session_id":"s 1","role":"user","content":"c5"} ` +
			`{"id":"","session_id":"s 1","role":"user","content":"c6"}]`,
	} {
		for _, size := range []string{"0", "1", "3", "7", "200"} {
			var all []string
			for token, pages := "", 0; pages == 0 || token != ""; pages++ {
				got := ask("GET", path+"?page_size="+size+"&page_token="+token, "")
				var page struct {
					Sessions, Messages []json.RawMessage
					Next               string `json:"next_page_token"`
				}
				if err := json.Unmarshal([]byte(got.Body), &page); err != nil || got.Status != 200 || pages > 7 {
					t.Fatalf("%d %v %s; pages %+v", got.Status, err, got.Body, pages)
				}
				for _, one := range append(page.Sessions, page.Messages...) {
					all = append(all, string(one))
				}
				token = page.Next
			}
			if text := fmt.Sprint(all); text != want {
				t.Errorf("%s by %s: %s, want %s", path, size, text, want)
			}
		}
		for _, query := range []string{"page_size=201", "page_size=-1", "page_token=!", "page_token=eA",
			"page_token=MCBh"} {
			if got := ask("GET", path+"?"+query, ""); got.Status != 400 ||
				resttest.ProblemOf(t, got).Reason != "LIST_INVALID" ||
				!strings.Contains(got.Body, `"metadata":{"field":"page_`) {
				t.Errorf("%s?%s: %d %s", path, query, got.Status, got.Body)
			}
		}
	}
}

// TestPagesOfAListThatChanges go on behind the last that was seen.
func TestPagesOfAListThatChanges(t *testing.T) {
	t.Parallel()
	e := &engine{}
	ask := e.door(t, rest.Config{})
	list := func(token string, ids ...string) (page, next string) {
		e.mu.Lock()
		e.sessions = nil
		for _, id := range ids {
			e.sessions = append(e.sessions, &openparallaxv1.SessionInfo{Id: id})
		}
		e.mu.Unlock()
		got := ask("GET", "/sessions?page_size=2&page_token="+token, "")
		var said struct {
			Sessions []struct{ ID string }
			Next     string `json:"next_page_token"`
		}
		if err := json.Unmarshal([]byte(got.Body), &said); err != nil || got.Status != 200 {
			t.Fatalf("%d %s; err %+v", got.Status, got.Body, err)
		}
		for _, s := range said.Sessions {
			page += s.ID
		}
		return page, said.Next
	}
	_, token := list("", "a", "b", "c", "d")
	for _, tt := range []struct{ now, want string }{
		{"abcd", "cd"}, {"xabcd", "cd"}, {"bcd", "cd"}, {"acd", "d"}, {"", ""}, {"z", ""}, {"acdb", ""},
	} {
		if page, _ := list(token, strings.Split(tt.now, "")...); page != tt.want {
			t.Errorf("of %q: %q, want %q", tt.now, page, tt.want)
		}
	}
}

func TestEngineApprovals(t *testing.T) {
	t.Parallel()
	e := new(engine)
	ask := e.door(t, rest.Config{})
	for _, tt := range []struct{ path, body, want string }{
		{"/approvals/a%201/approve", "", `"a 1" "" true`},
		{"/approvals/a/approve", `{"session_id":"s","approval_id":"b","engine":"c"}`, `"a" "s" true`},
		{"/approvals/a/deny", `{"sessionId":"s"}`, `"a" "s" false`},
	} {
		got := ask("POST", tt.path, tt.body)
		asked, _, md := e.last()
		req, _ := asked.(*openparallaxv1.ApprovalResponse)
		if text := fmt.Sprintf("%q %q %v", req.GetApprovalId(), req.GetSessionId(),
			req.GetApproved()); got.Status != 200 || got.Body != `{"received":true}`+"\n" || text != tt.want ||
			md.Get("x-capability-id")[0] != "engine-1" {
			t.Errorf("%s: %d %s; the engine got %s %v", tt.path, got.Status, got.Body, text, md)
		}
	}
	_, before, _ := e.last()
	for _, body := range []string{`{"session_id":"s","session_id":"t"}`, `{"session_id":"s"`, `{} {}`} {
		if got := ask("POST", "/approvals/a/approve", body); got.Status != 400 || // as the body of a call is rejected
			!regexp.MustCompile("^the body (has|is not JSON) .*byte [0-9]+").MatchString(
				resttest.ProblemOf(t, got).Detail) {
			t.Errorf("%s: %d %s", body, got.Status, got.Body)
		}
	}
	if got := ask("POST", "/approvals/a/approve", `{"approved":false}`); got.Status != 400 ||
		resttest.ProblemOf(t, got).Reason != "INVALID_BODY" {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if _, after, _ := e.last(); after != before {
		t.Error("the engine was called")
	}
}

// TestEnginesManners: the routes, their methods, and the form of errors.
func TestEnginesManners(t *testing.T) {
	t.Parallel()
	e := &engine{fails: status.Error(codes.NotFound, "no such engine")}
	ask := e.door(t, rest.Config{MaxBody: 100})
	for path, allow := range map[string]string{
		"/messages": "POST, OPTIONS", "/status": "GET, HEAD, OPTIONS", "/sessions": "GET, HEAD, OPTIONS",
		"/sessions/s/history":  "GET, HEAD, OPTIONS",
		"/approvals/a/approve": "POST, OPTIONS", "/approvals/a/deny": "POST, OPTIONS",
	} {
		if got := ask("OPTIONS", path, ""); got.Status != 204 || got.Header.Get("Allow") != allow {
			t.Errorf("%s: %d %v", path, got.Status, got.Header)
		}
		if got := ask("PUT", path, ""); got.Status != 405 || got.Header.Get("Allow") != allow ||
			resttest.ProblemOf(t, got).Reason != "METHOD_NOT_ALLOWED" {
			t.Errorf("%s: %d %v", path, got.Status, got.Header)
		}
		method, body := "POST", `{"content":"c"}`
		if strings.HasPrefix(allow, "GET") {
			method, body = "GET", ""
		}
		if strings.Contains(path, "approvals") {
			body = ""
		}
		if got := ask(method, path, body); got.Status != 404 || resttest.ProblemOf(t, got).Code != "NOT_FOUND" ||
			!strings.Contains(got.Body, "no such engine") {
			t.Errorf("%s: %d %s", path, got.Status, got.Body)
		}
		if method == "POST" {
			if got := ask(method, path, `{"session_id":"`+strings.Repeat("s", 100)+`"}`); got.Status != 413 {
				t.Errorf("%s: %d %s", path, got.Status, got.Body)
			}
			if got := ask(method, path, body, "Content-Type", "text/plain"); got.Status != 415 {
				t.Errorf("%s: %d %s", path, got.Status, got.Body)
			}
		}
	}
	_, before, _ := e.last()
	for _, path := range []string{"/", "", "/status/", "/sessions//history", "/sessions/%ff/history", "/sessions/s",
		"/approvals/a", "/../engine%0A1/status", "/..//status", "/../%ff/status"} {
		if got := ask("GET", path, ""); got.Status != 404 || resttest.ProblemOf(t, got).Reason != "NO_SUCH_PATH" {
			t.Errorf("%q: %d %s", path, got.Status, got.Body)
		}
	}
	if _, after, _ := e.last(); after != before {
		t.Error("the engine was called")
	}
}

// engineDoor returns a front door that has the routes of engines.
func engineDoor(t testing.TB, register func(*grpc.Server), cfg rest.Config) *httptest.Server {
	t.Helper()
	cfg.Extensions = []rest.Extension{enginerest.Routes}
	return resttest.Serve(t, register, cfg)
}
