package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
	"github.com/capgate/capgate/internal/testkit/check"
	openparallaxv1 "github.com/capgate/capgate/proto/openparallax/v1"
)

const (
	normal = openparallaxv1.SessionMode_NORMAL
	otr    = openparallaxv1.SessionMode_OTR
)

// TestLifecycle: an agent connects, answers with and without tools, and ends with the engine.
func TestLifecycle(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	e := start(t, engine.Config{Token: "secret"})
	_, gone := e.attend(t, agent.Config{Token: "secret"})
	c := e.client(t)

	heard, err := say(ctx, c, "s", "hello there", normal)
	if err != nil || heard.answer() != "You said: hello there" {
		t.Errorf("%v, %v", heard, err)
	}
	heard, err = say(ctx, c, "s", `tool: read_file {"path":"a.txt"}`, normal)
	want := []openparallaxv1.PipelineEventType{
		openparallaxv1.PipelineEventType_ACTION_STARTED, openparallaxv1.PipelineEventType_SHIELD_VERDICT,
		openparallaxv1.PipelineEventType_ACTION_COMPLETED, openparallaxv1.PipelineEventType_LLM_TOKEN,
		openparallaxv1.PipelineEventType_RESPONSE_COMPLETE,
	}
	if err != nil || heard.answer() != "what a.txt says" || !slices.Equal(heard.kinds(), want) {
		t.Errorf("%v, %v", heard.kinds(), err)
	}
	for message, want := range map[string]string{
		"load: files shell":             "read_file write_file delete_file execute_command",
		"remember: eggs":                "I will remember",
		`tool: delete_file {"path":""}`: "Blocked by security: actions of this type are not done here",
		`tool: read_file nonsense`:      "invalid arguments: invalid character 'o' in literal null (expecting 'u')",
		"tool: fly":                     "unknown tool fly",
		"delegate: nothing":             "sub-agents are disabled",
	} {
		if heard, err := say(ctx, c, "others", message, normal); err != nil || heard.answer() != want {
			t.Errorf("%s: %q, %v, want %q", message, heard.answer(), err, want)
		}
	}
	if heard, err := say(ctx, c, "s", "fail", normal); err != nil || heard.failure() != "LLM_CALL_FAILED" {
		t.Errorf("a failure: %v, %v", heard, err)
	}
	wanted := []string{
		"user: hello there", "assistant: You said: hello there",
		`user: tool: read_file {"path":"a.txt"}`, "assistant: what a.txt says", "user: fail",
	}
	if got := recorded(t, c, "s"); !slices.Equal(got, wanted) {
		t.Errorf("recorded %q", got)
	}
	if reply, err := c.GetStatus(ctx, &openparallaxv1.StatusRequest{}); err != nil || reply.GetAgentName() != "Atlas" ||
		reply.GetSessionCount() != 2 {
		t.Errorf("%v, %v", reply, err)
	}

	if reply, err := c.Shutdown(ctx, &openparallaxv1.ShutdownRequest{}); err != nil || !reply.GetClean() {
		t.Errorf("%v, %v", reply, err)
	}
	if err := check.Received(t, gone, "the agent to leave"); err != nil {
		t.Errorf("the agent: %v", err)
	}
	if err := check.Received(t, e.ended, "the engine to stop"); err != nil {
		t.Errorf("the engine: %v", err)
	}
}

func TestAgentsNeedTheToken(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{Token: "secret"})
	err := agent.Run(within(t), e.conn(t), agent.Config{Token: "guess"})
	if err == nil || !strings.Contains(err.Error(), "invalid token") {
		t.Error(err)
	}
}

func TestOffTheRecord(t *testing.T) {
	t.Parallel()
	for _, seed := range []bool{false, true} {
		e := start(t, engine.Config{SeedModes: seed})
		e.attend(t, agent.Config{})
		c, mode := e.client(t), otr
		if seed {
			mode--
		}
		heard, err := say(within(t), c, "s", "psst", mode)
		if err != nil || heard.answer() != "You said: psst" {
			t.Errorf("%v, %v", heard, err)
		}
		heard, err = say(within(t), c, "s", `tool: write_file {"path":"diary"}`, mode)
		if err != nil || heard.kinds()[0] != openparallaxv1.PipelineEventType_OTR_BLOCKED {
			t.Errorf("%v, %v", heard, err)
		}
		if reply, err := c.ListSessions(within(t), &openparallaxv1.ListSessionsRequest{}); err != nil ||
			len(reply.GetSessions()) > 0 {
			t.Errorf("recorded: %v, %v", reply, err)
		}
	}
}

// TestPagesUnlessIgnored: a list returns the requested page, or everything if pages are ignored.
func TestPagesUnlessIgnored(t *testing.T) {
	t.Parallel()
	for _, ignored := range []bool{false, true} {
		e := start(t, engine.Config{IgnorePages: ignored})
		e.attend(t, agent.Config{})
		c := e.client(t)
		for _, session := range []string{"a", "b", "c"} {
			if _, err := say(within(t), c, session, "hello", normal); err != nil {
				t.Fatal(err)
			}
		}
		reply, err := c.ListSessions(within(t), &openparallaxv1.ListSessionsRequest{Limit: 1, Offset: 1})
		if err != nil {
			t.Fatal(err)
		}
		var ids string
		for _, s := range reply.GetSessions() {
			ids += s.GetId()
			if s.GetMode() != normal || s.GetTitle() != "hello" || s.GetMessageCount() != 2 || s.GetCreatedAt() == 0 {
				t.Errorf("%v", s)
			}
		}
		said, err := c.GetHistory(within(t), &openparallaxv1.GetHistoryRequest{SessionId: "a", Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if want := map[bool]string{false: "b", true: "cba"}[ignored]; ids != want {
			t.Errorf("listed %q, want %q", ids, want)
		}
		if want := map[bool]int{false: 1, true: 2}[ignored]; len(said.GetMessages()) != want {
			t.Errorf("%v, want %d messages", said, want)
		}
	}
}

// TestApprovals: the first answer decides, and a question without an answer is denied.
func TestApprovals(t *testing.T) {
	t.Parallel()
	e := start(t, engine.Config{ApprovalIDs: true})
	e.attend(t, agent.Config{})
	c := e.client(t)
	for approved, want := range map[bool]string{true: "ran ls", false: "denied by human review"} {
		stream, err := c.SendMessage(within(t), &openparallaxv1.ClientMessageRequest{SessionId: "s",
			Content: "approve: ls", Mode: normal})
		if err != nil {
			t.Fatal(err)
		}
		asked := awaitApproval(t, stream)
		if asked.GetTimeoutAt() < time.Now().Unix() || asked.GetAction().GetPayloadJson() != `{"command":"ls"}` ||
			asked.GetAction().GetType() != openparallaxv1.ActionType_EXECUTE_COMMAND ||
			asked.GetShieldAssessment().GetDecision() != openparallaxv1.VerdictDecision_ESCALATE {
			t.Errorf("%v", asked)
		}
		response := &openparallaxv1.ApprovalResponse{ApprovalId: asked.GetApprovalId(), SessionId: "s",
			Approved: approved}
		if reply, err := c.ResolveApproval(within(t), response); err != nil || !reply.GetReceived() {
			t.Errorf("%v, %v", reply, err)
		}
		if heard, err := hear(stream); err != nil || heard.answer() != want {
			t.Errorf("%q, %v, want %q", heard.answer(), err, want)
		}
		if _, err := c.ResolveApproval(within(t), response); status.Code(err) != codes.Unknown {
			t.Errorf("a second answer: %v", err)
		}
	}
	hasty := start(t, engine.Config{ApprovalTimeout: time.Millisecond})
	hasty.attend(t, agent.Config{})
	if heard, err := say(within(t), hasty.client(t), "s", "approve: ls", normal); err != nil ||
		heard.answer() != "denied by human review" {
		t.Errorf("without an answer: %q, %v", heard.answer(), err)
	}
}

func awaitApproval(t *testing.T, stream openparallaxv1.ClientService_SendMessageClient) *openparallaxv1.ApprovalNeeded {
	t.Helper()
	for {
		event, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if asked := event.GetApprovalNeeded(); asked != nil {
			return asked
		}
	}
}

// A sub-agent gets its task for a token, once, and its result is sent to the agent.
func TestSubAgents(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	var working sync.WaitGroup
	defer func() { check.Ended(t, &working, "the end of the sub-agents") }() // while the connections are open
	tokens := make(chan string, 3)
	var e *served
	ready := make(chan struct{})
	e = start(t, engine.Config{Spawn: func(token string) {
		<-ready
		tokens <- token
		conn := e.conn(t)
		working.Go(func() {
			if err := agent.RunSub(context.WithoutCancel(ctx), conn, token); err != nil {
				t.Errorf("sub-agent: %v", err)
			}
		})
	}})
	close(ready)
	e.attend(t, agent.Config{})
	for task, want := range map[string]string{
		"sums":                           "did sums",
		`tool: read_file {"path":"sum"}`: "what sum says",
		"fail":                           "failed: cannot do that",
	} {
		heard, err := say(ctx, e.client(t), "s", "delegate: "+task, normal)
		if err != nil || !strings.HasSuffix(heard.answer(), want) {
			t.Errorf("%s: %q, %v", task, heard.answer(), err)
		}
		kind := openparallaxv1.PipelineEventType_SUB_AGENT_COMPLETED
		if task == "fail" {
			kind = openparallaxv1.PipelineEventType_SUB_AGENT_FAILED
		}
		if kinds := heard.kinds(); !slices.Contains(kinds, openparallaxv1.PipelineEventType_SUB_AGENT_SPAWNED) ||
			!slices.Contains(kinds, kind) {
			t.Errorf("%s: %v", task, kinds)
		}
		if err := agent.RunSub(ctx, e.conn(t), check.Received(t, tokens, "the token of the sub-agent")); err == nil ||
			!strings.Contains(err.Error(), "invalid sub-agent token") {
			t.Errorf("a token used twice: %v", err)
		}
	}
}

// TestSessionsOnDisk: a later engine reads the recorded sessions, except for an incomplete message.
func TestSessionsOnDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, want := range []int{0, 2, 4} {
		t.Run(fmt.Sprint(want), func(t *testing.T) { //nolint:paralleltest // each engine follows the one before
			e := start(t, engine.Config{Dir: dir})
			e.attend(t, agent.Config{})
			c := e.client(t)
			if said := recorded(t, c, "s"); len(said) != want {
				t.Errorf("it has %q", said)
			}
			if heard, err := say(within(t), c, "s", "hello", normal); err != nil ||
				heard.answer() != "You said: hello" {
				t.Errorf("%v, %v", heard, err)
			}
		})
		file, err := os.OpenFile(filepath.Join(dir, "messages.jsonl"), os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = file.WriteString(`{"Session":"s","Con`)
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestQuestionsWithoutID: over gRPC, a published engine sends an event without an id. Its web page has the id.
func TestQuestionsWithoutID(t *testing.T) {
	t.Parallel()
	served := engine.New(engine.Config{})
	e := startEngine(t, served)
	e.attend(t, agent.Config{})
	c := e.client(t)
	stream, err := c.SendMessage(within(t), &openparallaxv1.ClientMessageRequest{SessionId: "s", Content: "approve: ls",
		Mode: normal})
	if err != nil {
		t.Fatal(err)
	}
	for {
		event, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		bare := &openparallaxv1.PipelineEvent{SessionId: "s", MessageId: event.GetMessageId()}
		if proto.Equal(event, bare) {
			break
		}
	}
	shown := served.Questions()
	if len(shown) != 1 || shown[0].Session != "s" || shown[0].Tool != "execute_command" ||
		shown[0].Args != `{"command":"ls"}` {
		t.Fatalf("the web page shows %+v", shown)
	}
	if _, err := c.ResolveApproval(within(t), &openparallaxv1.ApprovalResponse{ApprovalId: shown[0].ID,
		Approved: true}); err != nil {
		t.Error(err)
	}
	if heard, err := hear(stream); err != nil || heard.answer() != "ran ls" || len(served.Questions()) > 0 {
		t.Errorf("%q, %v, %v", heard.answer(), err, served.Questions())
	}
}
