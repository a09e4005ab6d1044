package rest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/capgate/capgate/gateway/frontdoor/rest"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/resttest"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

type pipelineEvents = grpc.ServerStreamingServer[openparallaxv1.PipelineEvent]

// tells is an engine that sends events and ends with err.
func tells(err error, all ...*openparallaxv1.PipelineEvent) func(*openparallaxv1.ClientMessageRequest,
	pipelineEvents) error {
	return func(_ *openparallaxv1.ClientMessageRequest, stream pipelineEvents) error {
		for _, e := range all {
			if err := stream.Send(e); err != nil {
				return err
			}
		}
		return err
	}
}

func token(text string) *openparallaxv1.PipelineEvent {
	return &openparallaxv1.PipelineEvent{SessionId: "s", MessageId: "m",
		EventType: openparallaxv1.PipelineEventType_LLM_TOKEN, LlmToken: &openparallaxv1.LLMToken{Text: text}}
}

func complete() *openparallaxv1.PipelineEvent {
	return &openparallaxv1.PipelineEvent{EventType: openparallaxv1.PipelineEventType_RESPONSE_COMPLETE,
		ResponseComplete: &openparallaxv1.ResponseComplete{Content: "c"}}
}

func fault() *openparallaxv1.PipelineEvent {
	return &openparallaxv1.PipelineEvent{EventType: openparallaxv1.PipelineEventType_ERROR,
		PipelineError: &openparallaxv1.PipelineError{Code: "LLM_CALL_FAILED", Message: "no model", Recoverable: true}}
}

func TestEventsAreWritten(t *testing.T) {
	t.Parallel()
	e := &engine{says: tells(nil, token("<Hel>\n"),
		&openparallaxv1.PipelineEvent{EventType: openparallaxv1.PipelineEventType_SHIELD_VERDICT,
			ShieldVerdict: &openparallaxv1.ShieldVerdict{Decision: openparallaxv1.VerdictDecision_ESCALATE,
				ActionType: openparallaxv1.ActionType_WRITE_FILE}},
		&openparallaxv1.PipelineEvent{EventType: 99}, complete())}
	ask := e.door(t, rest.Config{})
	data := []string{
		`"session_id":"s","message_id":"m","event_type":"LLM_TOKEN","llm_token":{"text":"<Hel>\n"}`,
		`"session_id":"","message_id":"","event_type":"SHIELD_VERDICT","shield_verdict":{"decision":"ESCALATE","tier":0,"confidence":0,"reasoning":"","action_type":"WRITE_FILE"}`,
		`"session_id":"","message_id":"","event_type":99`,
		`"session_id":"","message_id":"","event_type":"RESPONSE_COMPLETE","response_complete":{"content":"c"}`,
	}
	var sse, lines strings.Builder
	for i, name := range []string{"llm_token", "shield_verdict", "99", "response_complete"} {
		fmt.Fprintf(&sse, "id: %d\nevent: %s\ndata: {%s}\n\n", i+1, name, data[i])
		fmt.Fprintf(&lines, `{"event":"%s","id":"%d",%s}`+"\n", name, i+1, data[i])
	}
	sse.WriteString("id: 5\nevent: done\ndata: {}\n\n")
	lines.WriteString(`{"event":"done","id":"5"}` + "\n")
	for accept, want := range map[string]string{"*/*": sse.String(), resttest.EventStream: sse.String(),
		resttest.JSONLines: lines.String()} {
		got := ask("POST", "/messages", `{"content":"hi","session_id":"s","mode":"OTR","source":"web"}`, "Accept",
			accept, "X-Capability-Id", "another", "X-Session-Modes", "seed")
		if got.Status != 200 || got.Body != want || got.Header.Get("Cache-Control") != "no-cache, no-transform" ||
			got.Header.Get("Vary") != "Accept" {
			t.Errorf("%s: %d %v\n%s\nwant\n%s", accept, got.Status, got.Header, got.Body, want)
		}
		asked, _, md := e.last()
		req, _ := asked.(*openparallaxv1.ClientMessageRequest)
		if text := fmt.Sprintf("%s %s %s %s %v", req.GetContent(), req.GetSessionId(), req.GetMode(), req.GetSource(),
			append(md.Get("x-capability-id"), md.Get("x-session-modes")...)); text != "hi s OTR web [engine-1 source]" {
			t.Errorf("the engine got %s", text)
		}
	}
	_, before, _ := e.last()
	if got := ask("POST", "/messages", `{"content":"c"}`, "Accept",
		"application/json;q=0, image/*"); got.Status != 406 {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if got := ask("POST", "/messages", `{"content":"c"}`, "Last-Event-ID", "4"); got.Status != 204 || got.Body != "" {
		t.Errorf("%d %s", got.Status, got.Body)
	}
	if _, after, _ := e.last(); after != before {
		t.Error("the engine was called")
	}
}

// TestModesHaveNames: numbers are rejected, because their meaning differs.
func TestModesHaveNames(t *testing.T) {
	t.Parallel()
	e := &engine{says: tells(nil, complete())}
	ask := e.door(t, rest.Config{})
	for mode, want := range map[string]openparallaxv1.SessionMode{
		``: openparallaxv1.SessionMode_NORMAL, `,"mode":""`: openparallaxv1.SessionMode_NORMAL,
		`,"mode":null`:     openparallaxv1.SessionMode_NORMAL,
		`,"mode":"NORMAL"`: openparallaxv1.SessionMode_NORMAL, `,"mode":"OTR"`: openparallaxv1.SessionMode_OTR,
		`,"mode":"HEARTBEAT"`: openparallaxv1.SessionMode_HEARTBEAT,
	} {
		got := ask("POST", "/messages", `{"content":"c"`+mode+`}`)
		asked, _, _ := e.last()
		if req, _ := asked.(*openparallaxv1.ClientMessageRequest); got.Status != 200 || req.GetMode() != want {
			t.Errorf("%s: %d %s, %v", mode, got.Status, got.Body, asked)
		}
	}
	_, before, _ := e.last()
	for _, body := range []string{
		`{"content":"c","mode":"otr"}`, `{"content":"c","mode":"SESSION_MODE_UNSPECIFIED"}`,
		`{"content":"c","mode":"SESSION_MODE_OTR"}`, `{"content":"c","mode":2}`, `{"content":"c","mode":"2"}`,
		`{"content":"c","mode":" OTR"}`, `{"content":"c","mode":["OTR"]}`,
		`{"content":"c","mode":"NORMAL","mode":"OTR"}`, `{"content":"c","Mode":"OTR"}`,
		``, `{}`, `{"content":""}`, `{"content":1}`, `[]`, `{"content":"c","otr":true}`,
		`{"content":"c","engine":"engine-2"}`, `{"content":"c"} x`, "{\"content\":\"\xff\"}",
	} {
		if got := ask("POST", "/messages", body); got.Status != 400 ||
			resttest.ProblemOf(t, got).Reason != "INVALID_BODY" ||
			resttest.ProblemOf(t, got).Code != "INVALID_ARGUMENT" {
			t.Errorf("%s: %d %s", body, got.Status, got.Body)
		}
	}
	if _, after, _ := e.last(); after != before {
		t.Error("the engine was called")
	}
}

// TestTurnThatFails: a failure is a status before the first record, and the last record afterwards.
func TestTurnThatFails(t *testing.T) {
	t.Parallel()
	lost, err := status.New(codes.Unavailable, "lost").WithDetails(&errdetails.ErrorInfo{Reason: "UPSTREAM_LOST",
		Domain: "capgate.dev", Metadata: map[string]string{"recover": "GetHistory"}})
	check.Must(t, err)
	for _, tt := range []struct {
		name   string
		events []*openparallaxv1.PipelineEvent
		err    error
		status int // of the answer where nothing was sent, else of the problem
		code   string
		reason string
	}{
		{"nothing", nil, nil, 502, "DATA_LOSS", "ANSWER_CUT_OFF"},
		{"refused", nil, lost.Err(), 503, "UNAVAILABLE", "UPSTREAM_LOST"},
		{"cut off", []*openparallaxv1.PipelineEvent{token("a")}, nil, 502, "DATA_LOSS", "ANSWER_CUT_OFF"},
		{"lost", []*openparallaxv1.PipelineEvent{token("a")}, lost.Err(), 503, "UNAVAILABLE", "UPSTREAM_LOST"},
		{"lost after its end", []*openparallaxv1.PipelineEvent{complete()}, lost.Err(), 503, "UNAVAILABLE",
			"UPSTREAM_LOST"},
		{"failed", []*openparallaxv1.PipelineEvent{token("a"), fault()}, nil, 422, "UNKNOWN", "ENGINE_ERROR"},
		{"failed after its end", []*openparallaxv1.PipelineEvent{complete(), fault()}, nil, 422, "UNKNOWN",
			"ENGINE_ERROR"},
		{"failed and went on", []*openparallaxv1.PipelineEvent{fault(), token("a"), complete()}, nil, 0, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ask := (&engine{says: tells(tt.err, tt.events...)}).door(t, rest.Config{})
			got := ask("POST", "/messages", `{"content":"c"}`, "Accept", resttest.JSONLines)
			if len(tt.events) == 0 {
				if p := resttest.ProblemOf(t, got); got.Status != tt.status || p.Code != tt.code ||
					p.Reason != tt.reason {
					t.Errorf("%d %s", got.Status, got.Body)
				}
				return
			}
			if got.Status != 200 || strings.Count(got.Body, "\n") != len(tt.events)+1 {
				t.Fatalf("%d %s", got.Status, got.Body)
			}
			event, p := resttest.LastRecord(t, got.Body)
			if tt.reason == "" {
				if event != "done" {
					t.Errorf("%s", got.Body)
				}
				return
			}
			if event != "failed" || p.Status != tt.status || p.Code != tt.code || p.Reason != tt.reason {
				t.Errorf("%s; event %+v", got.Body, event)
			}
			if tt.reason == "ENGINE_ERROR" && (!strings.Contains(got.Body,
				`{"event":"error","id":"2","session_id":"","message_id":"","event_type":"ERROR","pipeline_error":{"code":"LLM_CALL_FAILED","message":"no model","recoverable":true}}`) ||
				!strings.Contains(got.Body, `"detail":"no model"`) || !strings.Contains(got.Body,
				`"metadata":{"code":"LLM_CALL_FAILED","recoverable":"true"}`)) {
				t.Errorf("%s", got.Body)
			}
			if tt.err != nil && !strings.Contains(got.Body, `"metadata":{"recover":"GetHistory"}`) {
				t.Errorf("%s", got.Body)
			}
		})
	}
}

// TestWhoWaitsForItsTurnIsToldThatItLives.
func TestWhoWaitsForItsTurnIsToldThatItLives(t *testing.T) {
	t.Parallel()
	turn := make(chan struct{})
	e := &engine{says: func(_ *openparallaxv1.ClientMessageRequest, stream pipelineEvents) error {
		<-turn
		return stream.Send(complete())
	}}
	web := engineDoor(t, func(g *grpc.Server) { openparallaxv1.RegisterClientServiceServer(g, e) },
		rest.Config{Beat: time.Millisecond})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+enginePath+"/messages",
		strings.NewReader(`{"content":"c"}`))
	check.Must(t, err)
	resp, err := web.Client().Do(req)
	check.Must(t, err)
	defer resp.Body.Close()
	first := make([]byte, len("id: 0\n:\n\n"))
	if _, err := resp.Body.Read(first); err != nil || string(first) != "id: 0\n:\n\n" {
		t.Errorf("%q %v", first, err)
	}
	close(turn)
	if all, err := io.ReadAll(resp.Body); err != nil || !strings.HasSuffix(string(all), "event: done\ndata: {}\n\n") {
		t.Errorf("%q %v", all, err)
	}
}
