package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	guard "github.com/capgate/capgate/gateway/engine"
	"github.com/capgate/capgate/internal/call"
	"github.com/capgate/capgate/internal/testkit/check"
	"github.com/capgate/capgate/policy/approvals"
	parallaxpb "github.com/capgate/capgate/proto/openparallax/v1"
)

const agents = guard.Prefix + "AgentService/"

// errAway is the error of a store that does not answer.
var errAway = errors.New("away")

// halfAway is a store of sessions and of questions that answers to some methods alone.
type halfAway struct {
	owners
	guard.Questions

	claims bool // Claim has no answer; otherwise Owners has none
}

func (h halfAway) Claim(ctx context.Context, engine, session, tenant string) (string, bool, error) {
	if h.claims {
		return "", false, errAway
	}
	return h.owners.Claim(ctx, engine, session, tenant)
}

func (h halfAway) Owners(ctx context.Context, engine string, sessions []string) ([]string, error) {
	if !h.claims {
		return nil, errAway
	}
	return h.owners.Owners(ctx, engine, sessions)
}

// Bound knows of no question of a tenant, and has no answer for all tenants together.
func (halfAway) Bound(_ context.Context, tenant, _, _ string) (string, error) {
	if tenant == "*" {
		return "", errAway
	}
	return "", nil
}

func (halfAway) Bind(context.Context, string, string, string, string, time.Duration) error {
	return nil
}

// TestUnknownOwners: while the owner of a session or of a question is not known for sure, the engine gets nothing that
// concerns it.
func TestUnknownOwners(t *testing.T) {
	t.Parallel()
	message := &parallaxpb.ClientMessageRequest{SessionId: "new", Content: "hello"}
	for name, test := range map[string]struct {
		path    string
		request proto.Message
		change  func(*guarded)
	}{
		"the engine does not say whether it has the session": {clients + "SendMessage", message, func(e *guarded) {
			e.engine.failures = map[string][]error{clients + "GetHistory": {status.Error(codes.Unavailable, "away")}}
		}},
		"an owner that cannot be stored": {clients + "SendMessage", message,
			func(e *guarded) { e.shared.Sessions = halfAway{owners: e.owners, claims: true} }},
		"an owner that cannot be read": {clients + "SendMessage", message,
			func(e *guarded) { e.shared.Sessions = halfAway{owners: e.owners} }},
		"the owner of a history": {clients + "GetHistory", &parallaxpb.GetHistoryRequest{SessionId: "new"},
			func(e *guarded) { e.shared.Sessions = halfAway{owners: e.owners} }},
		"the tenant that was asked": {clients + "ResolveApproval",
			&parallaxpb.ApprovalResponse{ApprovalId: "q", SessionId: "mine", Approved: true},
			func(e *guarded) { e.shared.Questions, e.call.Session = halfAway{}, "mine" }},
	} {
		e := newGuarded()
		e.call.Session = "new"
		e.engine.responses = map[string]proto.Message{clients + "GetHistory": &parallaxpb.GetHistoryResponse{},
			clients + "ResolveApproval": &parallaxpb.ApprovalAck{Received: true}}
		test.change(e)
		_, err := e.serve(t.Context(), test.path, test.request)
		var refusal *call.Refusal
		if !errors.As(err, &refusal) || refusal.Reason != "ENGINE_STATE_UNAVAILABLE" {
			t.Errorf("%s: %v", name, err)
		}
		if slices.Contains(e.engine.got, test.path) {
			t.Errorf("%s: the engine got %v", name, e.engine.got)
		}
	}
}

// TestSessionThatTheEngineChooses becomes the tenant's. If it is another tenant's, nothing of it is shown.
func TestSessionThatTheEngineChooses(t *testing.T) {
	t.Parallel()
	for session, owner := range map[string]string{"new": "acme", "theirs": "rival"} {
		e := newGuarded()
		e.call.Session = "given"
		e.engine.responses = map[string]proto.Message{clients + "GetHistory": &parallaxpb.GetHistoryResponse{}}
		e.engine.events = []proto.Message{
			&parallaxpb.PipelineEvent{SessionId: session, EventType: parallaxpb.PipelineEventType_RESPONSE_COMPLETE},
		}
		got, err := e.serve(t.Context(), clients+"SendMessage", &parallaxpb.ClientMessageRequest{Content: "hello"})
		if own := owner == "acme"; len(got) > 0 != own || (err == nil) != own {
			t.Errorf("%s: %d events, %v", session, len(got), err)
		}
		if e.owners[session] != owner {
			t.Errorf("%s: the owners are %v", session, e.owners)
		}
	}
}

// TestHistoryOfOtherSessions: messages of other sessions, which an engine adds to the requested ones, are not shown.
func TestHistoryOfOtherSessions(t *testing.T) {
	t.Parallel()
	e := newGuarded()
	e.engine.responses = map[string]proto.Message{clients + "GetHistory": &parallaxpb.GetHistoryResponse{
		Messages: []*parallaxpb.ChatMessage{{Id: "1", SessionId: "mine"}, {Id: "2", SessionId: "theirs"}, {Id: "3"}},
	}}
	got, err := e.serve(t.Context(), clients+"GetHistory", &parallaxpb.GetHistoryRequest{SessionId: "mine"})
	check.Must(t, err)
	var shown parallaxpb.GetHistoryResponse
	if err := proto.Unmarshal(got[0], &shown); err != nil || len(shown.GetMessages()) != 2 ||
		shown.GetMessages()[0].GetId() != "1" || shown.GetMessages()[1].GetId() != "3" {
		t.Errorf("%v, %v", &shown, err)
	}
}

// TestEndlessSessions: an engine that always has one more page of others' sessions is asked for a bounded number.
func TestEndlessSessions(t *testing.T) {
	t.Parallel()
	e, n := newGuarded(), 0
	e.engine.page = func() proto.Message {
		page := &parallaxpb.ListSessionsResponse{}
		for range 100 {
			n++
			page.Sessions = append(page.Sessions, &parallaxpb.SessionInfo{Id: fmt.Sprint(n)})
		}
		return page
	}
	_, err := e.serve(t.Context(), clients+"ListSessions", &parallaxpb.ListSessionsRequest{})
	if err != nil || n != 20_000 {
		t.Errorf("%d sessions were read, %v", n, err)
	}
}

// inbox has one approval, in a state.
type inbox struct {
	guard.Approvals

	state   approvals.State
	refusal *call.Refusal // of its redemption
}

func (inbox) Create(context.Context, *approvals.Request) (approvals.Approval, bool, *call.Refusal) {
	return approvals.Approval{ID: "a", Expires: time.Now().Add(time.Hour)}, true, nil
}

func (i inbox) Wait(context.Context, string, string) (approvals.Approval, error) {
	return approvals.Approval{ID: "a", State: i.state}, nil
}

func (i inbox) Redeem(context.Context, string, *approvals.Request) (approvals.Redemption, *call.Refusal) {
	return approvals.Redemption{}, i.refusal
}

// TestAnswersToEngines: an answer is sent to an engine once. It is repeated only if the engine provably did not receive
// it, and not sent at all unless the approval was redeemed for it.
func TestAnswersToEngines(t *testing.T) {
	t.Parallel()
	unsent, err := status.New(codes.Unavailable, "not sent").WithDetails(&errdetails.ErrorInfo{Domain: "capgate.dev",
		Metadata: map[string]string{call.NotStarted: "true"}})
	check.Must(t, err)
	for name, test := range map[string]struct {
		inbox    inbox
		failures []error
		calls    int
	}{
		"approved":                    {inbox{state: approvals.Approved}, nil, 1},
		"denied":                      {inbox{state: approvals.Denied}, nil, 1},
		"redeemed by another replica": {inbox{state: approvals.Used}, nil, 0},
		"approved, and not redeemed": {inbox{state: approvals.Approved, refusal: &call.Refusal{Reason: "AWAY"}}, nil,
			0},
		"an answer that may have come": {inbox{state: approvals.Denied}, []error{status.Error(codes.Unavailable, "")},
			1},
		"answers that were never sent": {inbox{state: approvals.Denied}, []error{unsent.Err(), unsent.Err()}, 3},
		"an answer that is not welcome": {inbox{state: approvals.Approved}, []error{status.Error(codes.Unknown, "")},
			1},
	} {
		check.Bubble(t, func(t *testing.T) {
			e := newGuarded()
			e.call.Session, e.shared.Approvals, e.shared.Questions = "mine", test.inbox, halfAway{}
			e.engine.keeps = true
			e.engine.events = []proto.Message{&parallaxpb.PipelineEvent{SessionId: "mine",
				ApprovalNeeded: &parallaxpb.ApprovalNeeded{ApprovalId: "q"}}}
			e.engine.responses = map[string]proto.Message{clients +
				"ResolveApproval": &parallaxpb.ApprovalAck{Received: true}}
			e.engine.failures = map[string][]error{clients + "ResolveApproval": test.failures}
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = e.serve(t.Context(), clients+"SendMessage", &parallaxpb.ClientMessageRequest{SessionId: "mine"})
			}()
			<-time.After(time.Minute) // of the bubble's clock
			synctest.Wait()
			calls := 0
			for _, path := range e.engine.got {
				if path == clients+"ResolveApproval" {
					calls++
				}
			}
			if calls != test.calls {
				t.Errorf("%s: the engine was told %d times, want %d", name, calls, test.calls)
			}
			<-ended
		})
	}
}

// silentAgent is the stream of an agent that sends nothing.
type silentAgent struct{ *caller }

func (a silentAgent) RecvMsg(any) error {
	<-a.ctx.Done()
	return a.ctx.Err()
}

// TestCallsThatDoNotBegin: a message and an agent that come while the gateway begins nothing new give back their turn
// and their place.
func TestCallsThatDoNotBegin(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"a message": clients + "SendMessage", "an agent": agents + "RunSession"} {
		check.Bubble(t, func(t *testing.T) {
			e := newGuarded()
			e.call.Session = "mine"
			g, stop := e.start()
			defer stop()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			serve := func() error {
				c := newCaller(ctx, path, &parallaxpb.ClientMessageRequest{SessionId: "mine", Content: "hello"})
				if path == agents+"RunSession" {
					return g.Serve(nil, silentAgent{c})
				}
				return g.Serve(nil, c)
			}
			e.stops = errAway
			if err := serve(); !errors.Is(err, errAway) {
				t.Errorf("%s while the gateway stops: %v", name, err)
			}
			e.stops = nil
			if err := serve(); err != nil {
				t.Errorf("%s after that: %v", name, err)
			}
		})
	}
}

// TestEnginesThatKeepStreams: an engine that does not end the stream of an agent that has left, or a message, has it
// ended for it. The next agent gets the engine, unless it leaves before.
func TestEnginesThatKeepStreams(t *testing.T) {
	t.Parallel()
	check.Bubble(t, func(t *testing.T) {
		e := newGuarded()
		e.engine.keeps = true
		g, stop := e.start()
		defer stop()
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- g.Serve(nil, silentAgent{newCaller(ctx, agents+"RunSession", nil)}) }()
		synctest.Wait()
		left := time.Now()
		leave()
		if err := <-ended; err == nil {
			t.Error("the call of an agent that left succeeds")
		}
		brief, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := g.Serve(nil, silentAgent{newCaller(brief, agents+"RunSession", nil)})
		if took := time.Since(left); err == nil || took > time.Second {
			t.Errorf("an agent that left after 100 ms waited for %v, and %v", took, err)
		}
		e.engine.keeps = false
		err = g.Serve(nil, silentAgent{newCaller(t.Context(), agents+"RunSession", nil)})
		if took := time.Since(left); err != nil || took > time.Minute {
			t.Errorf("the next agent got the engine after %v, and %v", took, err)
		}
	})
	check.Bubble(t, func(t *testing.T) {
		e := newGuarded()
		e.engine.keeps, e.call.Session, e.call.MaxDuration = true, "mine", time.Hour
		began := time.Now()
		_, err := e.serve(t.Context(), clients+"SendMessage", &parallaxpb.ClientMessageRequest{SessionId: "mine"})
		var refusal *call.Refusal
		if !errors.As(err, &refusal) || refusal.Reason != "ENGINE_STREAM_LOST" || time.Since(began) != time.Hour {
			t.Errorf("the message ended after %v with %v", time.Since(began), err)
		}
	})
}
