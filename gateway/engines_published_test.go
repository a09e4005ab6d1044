package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/capgate/capgate/examples/openparallax/agent"
	"github.com/capgate/capgate/examples/openparallax/engine"
	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/tenant"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/internal/testkit/gatewaytest"
	"github.com/capgate/capgate/policy/approvals"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
)

// askElsewhere sends a message that requires approval at a published engine, and returns the event without type
// or content, with the rest of the stream.
func askElsewhere(ctx context.Context, t *testing.T, e *engines, session string) (
	*parallaxpb.PipelineEvent, parallaxpb.ClientService_SendMessageClient) {
	t.Helper()
	stream, err := e.client.SendMessage(ctx, &parallaxpb.ClientMessageRequest{SessionId: session,
		Content: `tool: execute_command {"command":"ls","password":"hunter2"}`, Mode: parallaxpb.SessionMode_NORMAL})
	check.Must(t, err)
	for {
		event, err := stream.Recv()
		check.Must(t, err)
		if event.GetEventType() == parallaxpb.PipelineEventType_PIPELINE_EVENT_UNSPECIFIED {
			return event, stream
		}
	}
}

// pendingAt returns a tenant's pending approvals.
func pendingAt(t *testing.T, e *engines, of string) []approvals.Approval {
	t.Helper()
	page, _, err := e.approver.List(t.Context(), of, approvals.Filter{State: approvals.Pending}, "", 10)
	check.Must(t, err)
	return page
}

// TestQuestionsOfPublishedEngines: the client receives the engine's event unchanged. The inbox shows where the
// question can be answered and accepts no answer itself. An answer with the id from the engine's web page
// reaches the engine.
func TestQuestionsOfPublishedEngines(t *testing.T) {
	t.Parallel()
	served := engine.New(engine.Config{})
	backend := gatewaytest.Serve(t, served.Register)
	e := behind(t, backend.Addr, &guard.Settings{Queue: 100})
	e.attend(t, agent.Config{})
	for _, approve := range []bool{true, false} {
		event, stream := askElsewhere(patient(t), t, e, "mine")
		bare := &parallaxpb.PipelineEvent{SessionId: "mine", MessageId: event.GetMessageId()}
		if !proto.Equal(event, bare) || event.GetMessageId() == "" {
			t.Errorf("the client got %v", event)
		}
		page := pendingAt(t, e, "default")
		if len(page) != 1 || page[0].Capability != "engine-1" || page[0].Session != "mine" ||
			page[0].Level != approvals.Elsewhere || page[0].Tool != "execute_command" {
			t.Fatalf("pending: %+v", page)
		}
		asked := page[0]
		if !strings.Contains(asked.Why, e.addr) || !strings.Contains(asked.Why, "own web page") ||
			strings.Contains(asked.Preview, "hunter2") || !strings.Contains(asked.Preview, `"command": "ls"`) {
			t.Errorf("the inbox shows %q, %s", asked.Why, asked.Preview)
		}
		for _, answer := range []func(context.Context, string, string, approvals.Answer) (approvals.Approval, error){
			e.approver.Approve, e.approver.Deny} {
			_, err := answer(t.Context(), "default", asked.ID, approvals.Answer{By: "eve"})
			var refusal *call.Refusal
			if !errors.As(err, &refusal) || refusal.Reason != "APPROVAL_ELSEWHERE" ||
				!strings.Contains(err.Error(), "own web page") {
				t.Errorf("answered without the id: %v; refusal %+v", err, refusal)
			}
		}
		shown := served.Questions()
		if len(shown) != 1 || shown[0].Session != "mine" {
			t.Fatalf("the web page shows %+v", shown)
		}
		ack, err := e.client.ResolveApproval(patient(t), &parallaxpb.ApprovalResponse{ApprovalId: shown[0].ID,
			SessionId: "mine", Approved: approve})
		if err != nil || !ack.GetReceived() {
			t.Fatalf("got %v, %v", ack, err)
		}
		events, err := receiveAll(stream)
		if err != nil || len(pendingAt(t, e, "default")) > 0 {
			t.Errorf("%v; still pending: %v", err, pendingAt(t, e, "default"))
		}
		done := false
		for _, event := range events {
			done = done || event.GetActionCompleted().GetSuccess()
		}
		if done != approve {
			t.Errorf("approved %v: %v", approve, events)
		}
		if a, err := e.approver.Get(t.Context(), "default", asked.ID); err != nil || a.State != approvals.Expired {
			t.Errorf("afterwards: %v, %v", a.State, err)
		}
		_, err = e.client.ResolveApproval(patient(t), &parallaxpb.ApprovalResponse{ApprovalId: shown[0].ID,
			SessionId: "mine", Approved: !approve})
		wants(t, err, codes.NotFound, "ENGINE_APPROVAL_UNKNOWN")
	}
}

// TestQuestionsThatEndWithTheirMessage: the inbox does not show a question whose engine has gone.
func TestQuestionsThatEndWithTheirMessage(t *testing.T) {
	t.Parallel()
	served := engine.New(engine.Config{})
	backend := gatewaytest.Serve(t, served.Register)
	e := behind(t, backend.Addr, &guard.Settings{Queue: 100})
	e.attend(t, agent.Config{})
	_, stream := askElsewhere(patient(t), t, e, "mine")
	if n := len(pendingAt(t, e, "default")); n != 1 {
		t.Fatalf("%d pending", n)
	}
	backend.Stop()
	_, err := receiveAll(stream)
	wants(t, err, codes.DataLoss, "ENGINE_STREAM_LOST")
	if page := pendingAt(t, e, "default"); len(page) > 0 {
		t.Errorf("still pending: %+v", page)
	}
}

// TestAnswersToUnseenQuestions: answers to questions that the gateway has not seen reach the engine only from
// the session's owner, and never for a question of another tenant.
func TestAnswersToUnseenQuestions(t *testing.T) {
	t.Parallel()
	ring := newKeyring()
	ring.issue("a", "acme", tenant.EngineChat, nil)
	ring.issue("g", "globex", tenant.EngineChat, nil)
	acme := func() context.Context { return bearer(patient(t), ring.credentials["a"]) }
	globex := func() context.Context { return bearer(patient(t), ring.credentials["g"]) }
	for _, known := range []bool{false, true} {
		served := engine.New(engine.Config{ApprovalIDs: known})
		e := behind(t, gatewaytest.Serve(t, served.Register).Addr, &guard.Settings{Queue: 100}, withKeys(t, ring))
		attendDirectly(t, e.addr)
		if got, err := e.say(globex(), "theirs", "hello"); err != nil || got != "You said: hello" {
			t.Fatalf("got %q, %v", got, err)
		}
		stream, err := e.client.SendMessage(acme(), &parallaxpb.ClientMessageRequest{SessionId: "mine",
			Content: "approve: ls"})
		check.Must(t, err)
		for asked := false; !asked; {
			event, err := stream.Recv()
			check.Must(t, err)
			asked = event.GetApprovalNeeded() != nil ||
				event.GetEventType() == parallaxpb.PipelineEventType_PIPELINE_EVENT_UNSPECIFIED
		}
		id := served.Questions()[0].ID
		uncached := []string{"mine", ""}
		if known { // published engines reveal ids to no caller that could abuse them, and check nothing else
			uncached = append(uncached, "theirs")
		}
		for _, session := range uncached {
			_, err := e.client.ResolveApproval(globex(), &parallaxpb.ApprovalResponse{ApprovalId: id,
				SessionId: session, Approved: true})
			wants(t, err, codes.NotFound, "ENGINE_APPROVAL_UNKNOWN")
		}
		if len(served.Questions()) != 1 {
			t.Error("the answer of a caller that does not own the session reached the engine")
		}
		if _, err := e.client.ResolveApproval(acme(), &parallaxpb.ApprovalResponse{ApprovalId: id, SessionId: "mine",
			Approved: true}); err != nil {
			t.Error(err)
		}
		if events, err := receiveAll(stream); err != nil || events[len(events)-1].GetResponseComplete() == nil {
			t.Errorf("got %v, %v", events, err)
		}
	}
}

// TestQuestionsOfPublishedEnginesByJSON: such questions have an event of their own.
func TestQuestionsOfPublishedEnginesByJSON(t *testing.T) {
	t.Parallel()
	served := engine.New(engine.Config{})
	backend := gatewaytest.Serve(t, served.Register)
	e := behind(t, backend.Addr, &guard.Settings{Queue: 100})
	e.attend(t, agent.Config{})
	by := engineJSON{t: t, gateway: e.gateway, client: e.gateway.HTTP1(t)}
	next := by.say(`{"content":"approve: ls","session_id":"s"}`)
	if _, names := until(next, "approval_elsewhere"); !strings.Contains(names, "shield_verdict") {
		t.Errorf("events before: %s", names)
	}
	by.wants("POST", "/engine-1/approvals/"+served.Questions()[0].ID+"/approve", `{"session_id":"s"}`, http.StatusOK,
		`"received":true`)
	if r, _ := until(next, "response_complete"); r.Response.Content != "ran ls" {
		t.Errorf("got %+v", r)
	}
}
